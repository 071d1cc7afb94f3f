package receiver_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// problem reads an answer as a caller's library does.
type problem struct {
	Type, Title, Detail, Code, Event, State, Next, Advice, Operation string
	EventID                                                          string `json:"event_id"`
	Status                                                           int
	Retriable                                                        *bool
	RetryAfter                                                       int `json:"retry_after"`
	Paths                                                            []string
}

// problemOf reads the answer, which must be one of the table, and must say the same in its
// document and in its headers.
func problemOf(t *testing.T, w *httptest.ResponseRecorder) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %s %q: %v", w.Code, w.Header().Get("Content-Type"), w.Body, err)
	}
	row := slices.IndexFunc(receiver.Codes(), func(m receiver.CodeMeaning) bool { return string(m.Code) == p.Code })
	if row < 0 {
		t.Fatalf("the code %q is not in the table", p.Code)
	}
	meaning := receiver.Codes()[row]
	if p.Status != w.Code || p.Status != meaning.Status || p.Title != meaning.Title || p.Advice != meaning.Advice || !slices.ContainsFunc(operation.NextMeanings(), func(n operation.NextMeaning) bool { return string(n.Next) == p.Next }) || !strings.HasSuffix(p.Type, "#"+p.Code) {
		t.Errorf("%d %s is not what the table says of it", w.Code, w.Body)
	}
	if p.Retriable == nil || *p.Retriable != meaning.Retriable {
		t.Errorf("%s: retriable is not what the table says", w.Body)
	}
	if after := w.Header().Get("Retry-After"); (p.RetryAfter > 0 || after != "") && after != json.Number(jsonInt(p.RetryAfter)).String() {
		t.Errorf("Retry-After %q, and %d in %s", after, p.RetryAfter, w.Body)
	}
	return p
}

func jsonInt(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// Whatever goes wrong with a call, its caller gets a problem document. Who is not verified learns
// the code and nothing else.
func TestEveryFailedCallIsAProblem(t *testing.T) {
	t.Parallel()
	const id = "agent:charge:k1"
	for name, c := range map[string]struct {
		gate    *fakeGate
		change  func(*http.Request)
		code    string
		event   string
		eventID string
		detail  bool
	}{
		"no credential":    {change: func(r *http.Request) { r.Header.Del("Authorization") }, code: "unauthorized"},
		"another secret":   {change: func(r *http.Request) { r.Header.Set("Authorization", "Bearer three") }, code: "unauthorized"},
		"another scheme":   {change: func(r *http.Request) { r.Header.Set("Authorization", "Digest one") }, code: "unauthorized"},
		"another method":   {change: func(r *http.Request) { r.Method = http.MethodPut }, code: "method_not_allowed"},
		"packed":           {change: func(r *http.Request) { r.Header.Set("Content-Encoding", "br") }, code: "content_encoding"},
		"large":            {change: func(r *http.Request) { r.ContentLength = 2 << 20 }, code: "too_large"},
		"cut off":          {change: func(r *http.Request) { r.ContentLength = 100 }, code: "incomplete"},
		"no operation":     {change: func(r *http.Request) { r.Header.Del("Oncegate-Operation") }, code: "missing_operation", detail: true},
		"a wild operation": {change: func(r *http.Request) { r.Header.Set("Oncegate-Operation", "a:b") }, code: "invalid_operation", detail: true},
		"no key":           {change: func(r *http.Request) { r.Header.Del("Idempotency-Key") }, code: "missing_key", detail: true},
		"a wild key":       {change: func(r *http.Request) { r.Header.Set("Idempotency-Key", "a b") }, code: "invalid_key", detail: true},
		"a wild parent":    {change: func(r *http.Request) { r.Header.Set(receiver.HeaderResumes, "k0") }, code: "unknown_parent", eventID: id, detail: true},
		"overload":         {gate: failing(gate.ErrOverloaded), code: "overloaded", eventID: id},
		"a fault":          {gate: failing(errors.New("down")), code: "unavailable", eventID: id},
		"in flight":        {gate: answering(inbox.Duplicate), code: "in_flight", event: recordedID, eventID: id},
		"other payload":    {gate: answering(inbox.Conflict), code: "payload_differs", event: recordedID, eventID: id},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := c.gate
			if g == nil {
				g = answering(inbox.Recorded)
			}
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/agents", strings.NewReader(`{"n":1}`))
			for name, value := range map[string]string{"Authorization": "Bearer one", "Oncegate-Operation": "charge", "Idempotency-Key": "k1"} {
				req.Header.Set(name, value)
			}
			if c.change != nil {
				c.change(req)
			}
			w := httptest.NewRecorder()
			operations(t, g, &outcomes{}, nil).ServeHTTP(w, req)
			p := problemOf(t, w)
			if p.Code != c.code || p.Event != c.event || p.EventID != c.eventID || (p.Detail != "") != c.detail {
				t.Errorf("%s, want the code %s, event %q, event_id %q and detail %t", w.Body, c.code, c.event, c.eventID, c.detail)
			}
			if c.event != "" && w.Header().Get("Location") != "/in/agents/"+c.event {
				t.Errorf("Location %q", w.Header().Get("Location"))
			}
		})
	}
}

// How a credential failed is not told: each failure has the same bytes.
func TestStrangersAreToldNothing(t *testing.T) {
	t.Parallel()
	h := operations(t, answering(inbox.Recorded), &outcomes{}, nil)
	seen := map[string]bool{}
	for _, credential := range []string{"", "Bearer", "Bearer three", "Basic b25lOg==", "Bearer one\x00"} {
		w := operate(t, h, "Authorization", credential)
		problemOf(t, w)
		seen[w.Body.String()] = true
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/in/agents/"+recordedID, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	problemOf(t, w)
	if seen[w.Body.String()] = true; len(seen) != 1 {
		t.Errorf("strangers are told apart: %v", seen)
	}
}

// A provider's sender gets the bare answers.
func TestSendersGetNoProblem(t *testing.T) {
	t.Parallel()
	for want, c := range map[int]struct {
		gate    *fakeGate
		provoke string
	}{401: {answering(inbox.Recorded), "signature"}, 503: {failing(gate.ErrOverloaded), ""}} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop", strings.NewReader(`{"id":"a"}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Signature", sign(`{"id":"a"}`+c.provoke))
		w := httptest.NewRecorder()
		newReceiver(t, config(c.gate, newProvider())).ServeHTTP(w, req)
		if w.Code != want || w.Body.Len() > 0 {
			t.Errorf("%d %s, want %d and no body", w.Code, w.Body, want)
		}
	}
}

// Programs compare codes, and every row says everything.
func TestCodesAreWhole(t *testing.T) {
	t.Parallel()
	seen := map[receiver.Code]bool{}
	for _, m := range receiver.Codes() {
		if seen[m.Code] || strings.Trim(string(m.Code), "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("the code %q is there twice or has another form", m.Code)
		}
		seen[m.Code] = true
		if http.StatusText(m.Status) == "" || m.Status < 400 || m.Title == "" || m.Next == "" || !strings.HasSuffix(m.Advice, ".") {
			t.Errorf("%s: %+v", m.Code, m)
		}
		if m.Retriable && (m.Status == 401 || m.Status == 403 || m.Status == 422) {
			t.Errorf("%s is retriable with %d", m.Code, m.Status)
		}
	}
}
