// Package listingtest has local servers with the APIs by which senders list their events, as their
// documentation describes them. The page of each is reconcile.docs of the provider in the catalogue.
package listingtest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Key is the credential that most servers accept, and OtherKey one that they do not.
const (
	Key      = "the_key_of_the_api"
	OtherKey = "another_key"
)

// Event is an event of a sender.
type Event struct {
	ID      string
	Created time.Time

	// Type is a type of Stripe's events; empty is invoice.paid. The other senders' lists have one type each.
	Type string
}

// API is the state of one sender. The zero value has no events.
type API struct {
	// Before may answer the n-th request instead, counted from 1; it reports whether it did.
	Before func(w http.ResponseWriter, r *http.Request, n int) bool

	// PageSize is the size of a page; 0 is 3.
	PageSize int

	// TokenLife is how long a token is valid that the sender issues; 0 is nine hours, as PayPal's.
	TokenLife time.Duration

	mu          sync.Mutex
	events      []Event // the newest first
	requests    int
	tokens      int
	redelivered []string
}

// Add adds events. They must be newer than those that are there.
func (a *API) Add(events ...Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range events {
		a.events = slices.Insert(a.events, 0, e)
	}
}

// Tokens returns how many tokens were issued or refused.
func (a *API) Tokens() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tokens
}

// Requests returns how many requests came, apart from those for tokens.
func (a *API) Requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

// Redelivered returns the ids that were asked for again.
func (a *API) Redelivered() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.redelivered)
}

// Sender is a sender's API.
type Sender struct {
	// Provider is its name in the catalogue. Params and Settings are what a source sets.
	Provider string
	Params   map[string]string
	Settings map[string]string

	// Credential is what the server accepts, and Other one of the same form that it does not accept.
	Credential, Other string

	// Secretless says that the provider verifies without secrets.
	Secretless bool

	// accepts reports whether a request is authorized. Nil accepts Key as a token or as a user.
	accepts func(r *http.Request) bool
	serve   func(a *API, w http.ResponseWriter, r *http.Request)
}

// Senders returns every sender whose list the catalogue describes.
func Senders() []Sender {
	all := []Sender{
		{Provider: "stripe", serve: stripe},
		{Provider: "paddle", serve: paddle},
		{Provider: "square", serve: square},
		{Provider: "chargebee", Params: map[string]string{"site": "acme-test"}, serve: chargebee},
		{Provider: "gocardless", serve: gocardless},
		{Provider: "github", Params: map[string]string{"owner": "octocat", "repo": "hello-world", "hook": "7"}, serve: github},
		paypal(),
		apple(),
	}
	for i := range all {
		all[i].Credential, all[i].Other = cmp.Or(all[i].Credential, Key), cmp.Or(all[i].Other, OtherKey)
	}
	return all
}

// Handler serves the API.
func (s Sender) Handler(a *API) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Provider == "paypal" && r.URL.Path == "/v1/oauth2/token" {
			a.paypalToken(w, r)
			return
		}
		a.mu.Lock()
		a.requests++
		n := a.requests
		a.mu.Unlock()
		if a.Before != nil && a.Before(w, r, n) {
			return
		}
		accepts := s.accepts
		if accepts == nil {
			accepts = acceptsKey
		}
		if !accepts(r) {
			http.Error(w, "{}", http.StatusUnauthorized)
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		s.serve(a, w, r)
	})
}

func acceptsKey(r *http.Request) bool {
	given := r.Header.Get("Authorization")
	return given == "Bearer "+Key || given == "Basic "+base64.StdEncoding.EncodeToString([]byte(Key+":"))
}

// page returns the events from since to until that follow the one with the id, and whether there are more.
func (a *API) page(all []Event, since, until time.Time, after string) (page []Event, more bool) {
	for _, e := range all {
		if (since.IsZero() || !e.Created.Before(since)) && (until.IsZero() || !e.Created.After(until)) {
			page = append(page, e)
		}
	}
	if at := slices.IndexFunc(page, func(e Event) bool { return e.ID == after }); at >= 0 {
		page = page[at+1:]
	}
	size := a.PageSize
	if size == 0 {
		size = 3
	}
	if len(page) > size {
		return page[:size], true
	}
	return page, false
}

func each(events []Event, show func(e Event) any) []any {
	out := make([]any, len(events))
	for i, e := range events {
		out[i] = show(e)
	}
	return out
}

type object = map[string]any

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func seconds(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

func rfc3339(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

func refused(w http.ResponseWriter, ok bool) bool {
	if !ok {
		http.Error(w, `{"error":"not as documented"}`, http.StatusBadRequest)
	}
	return !ok
}

func stripe(a *API, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if refused(w, r.Method == http.MethodGet && r.URL.Path == "/v1/events" && q.Has("created[gte]")) {
		return
	}
	page, more := a.page(a.events, seconds(q.Get("created[gte]")), seconds(q.Get("created[lte]")), q.Get("starting_after"))
	answer(w, object{"object": "list", "url": "/v1/events", "has_more": more, "data": each(page, func(e Event) any {
		return object{"id": e.ID, "object": "event", "created": e.Created.Unix(), "type": cmp.Or(e.Type, "invoice.paid"), "pending_webhooks": 1, "data": object{"object": object{"id": "in_1"}}}
	})})
}

func paddle(a *API, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if refused(w, r.Method == http.MethodGet && r.URL.Path == "/events" && q.Get("order_by") == "id[DESC]") {
		return
	}
	page, more := a.page(a.events, time.Time{}, time.Time{}, q.Get("after"))
	next := *r.URL
	next.Scheme, next.Host = "http", r.Host
	if len(page) > 0 {
		q.Set("after", page[len(page)-1].ID)
	}
	next.RawQuery = q.Encode()
	answer(w, object{
		"data": each(page, func(e Event) any {
			return object{"event_id": e.ID, "event_type": "transaction.paid", "occurred_at": e.Created.UTC().Format(time.RFC3339Nano), "data": object{"id": "txn_1"}}
		}),
		"meta": object{"request_id": "r", "pagination": object{"per_page": len(page), "next": next.String(), "has_more": more, "estimated_total": len(a.events)}},
	})
}

func square(a *API, w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Cursor string `json:"cursor"`
		Limit  int    `json:"limit"`
		Query  struct {
			Filter struct {
				Created struct {
					Start string `json:"start_at"`
					End   string `json:"end_at"`
				} `json:"created_at"`
			} `json:"filter"`
			Sort struct{ Order string } `json:"sort"`
		} `json:"query"`
	}
	body, err := io.ReadAll(r.Body)
	if refused(w, err == nil && r.Method == http.MethodPost && r.URL.Path == "/v2/events" && json.Unmarshal(body, &asked) == nil && asked.Limit == 100 && asked.Query.Sort.Order == "DESC") {
		return
	}
	page, more := a.page(a.events, rfc3339(asked.Query.Filter.Created.Start), rfc3339(asked.Query.Filter.Created.End), asked.Cursor)
	out := object{"events": each(page, func(e Event) any {
		return object{"merchant_id": "m", "type": "payment.created", "event_id": e.ID, "created_at": e.Created.UTC().Format(time.RFC3339), "data": object{"id": "p_1"}}
	})}
	if more {
		out["cursor"] = page[len(page)-1].ID
	}
	answer(w, out)
}

func chargebee(a *API, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, until, ok := strings.Cut(strings.Trim(q.Get("occurred_at[between]"), "[]"), ",")
	if refused(w, ok && r.Method == http.MethodGet && r.URL.Path == "/api/v2/events" && q.Get("sort_by[asc]") == "occurred_at") {
		return
	}
	oldest := slices.Clone(a.events)
	slices.Reverse(oldest)
	page, more := a.page(oldest, seconds(since), seconds(until), q.Get("offset"))
	out := object{"list": each(page, func(e Event) any {
		return object{"event": object{"id": e.ID, "occurred_at": e.Created.Unix(), "source": "admin_console", "object": "event", "api_version": "v2", "event_type": "invoice_generated", "content": object{"invoice": object{"id": "i", "resource_version": 7}}}}
	})}
	if more {
		out["next_offset"] = page[len(page)-1].ID
	}
	answer(w, out)
}

func gocardless(a *API, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if refused(w, r.Method == http.MethodGet && r.URL.Path == "/events" && r.Header.Get("GoCardless-Version") == "2015-07-06" && q.Has("created_at[gte]")) {
		return
	}
	page, more := a.page(a.events, rfc3339(q.Get("created_at[gte]")), rfc3339(q.Get("created_at[lte]")), q.Get("after"))
	cursors := object{"before": nil, "after": nil}
	if more {
		cursors["after"] = page[len(page)-1].ID
	}
	answer(w, object{"events": each(page, func(e Event) any {
		return object{"id": e.ID, "created_at": e.Created.UTC().Format(time.RFC3339Nano), "resource_type": "payments", "action": "confirmed", "links": object{"payment": "PM1"}, "details": object{"origin": "gocardless"}}
	}), "meta": object{"cursors": cursors, "limit": 500}})
}

func github(a *API, w http.ResponseWriter, r *http.Request) {
	const deliveries = "/repos/octocat/hello-world/hooks/7/deliveries"
	if delivery, ok := strings.CutPrefix(r.URL.Path, deliveries+"/"); ok && r.Method == http.MethodPost {
		number, isAttempt := strings.CutSuffix(delivery, "/attempts")
		n, err := strconv.Atoi(number)
		if refused(w, isAttempt && err == nil && n >= 1 && n <= len(a.events)) {
			return
		}
		a.redelivered = append(a.redelivered, a.events[len(a.events)-n].ID)
		w.WriteHeader(http.StatusAccepted)
		answer(w, object{})
		return
	}
	if refused(w, r.Method == http.MethodGet && r.URL.Path == deliveries) {
		return
	}
	q := r.URL.Query()
	page, more := a.page(a.events, time.Time{}, time.Time{}, q.Get("cursor"))
	if more {
		q.Set("cursor", page[len(page)-1].ID)
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?%s>; rel="next"`, r.Host, deliveries, q.Encode()))
	}
	answer(w, each(page, func(e Event) any {
		number := len(a.events) - slices.Index(a.events, e)
		return object{"id": number, "guid": e.ID, "delivered_at": e.Created.UTC().Format(time.RFC3339), "redelivery": false, "status": "Invalid HTTP Response: 502", "status_code": 502, "event": "issues", "action": "opened"}
	}))
}
