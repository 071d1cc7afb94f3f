package console

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// lives are the open live lists. Their number is bounded: in all, for each token, and for each tenant. Each browser has one
// list; a newer list ends the older one.
type lives struct {
	limit int

	mu   sync.Mutex
	open map[[sha256.Size]byte]*liveList
}

// liveList is one open live list. credential is the token or the login that opened it.
type liveList struct {
	end                chan struct{}
	credential, tenant string
}

func newLives(limit int) *lives { return &lives{limit: limit, open: map[[sha256.Size]byte]*liveList{}} }

// begin takes a slot for the browser. ok is false if there is none: a token or login may have a quarter of the slots, and a
// tenant half of them, so that neither can take them from everybody else.
func (l *lives) begin(browser [sha256.Size]byte, access control.Access) (list *liveList, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list = &liveList{end: make(chan struct{}), credential: or(access.Credential, access.Actor), tenant: access.Tenant}
	if before := l.open[browser]; before != nil {
		close(before.end)
		l.open[browser] = list
		return list, true
	}
	ofCredential, ofTenant := 0, 0
	for _, other := range l.open {
		if other.credential == list.credential {
			ofCredential++
		}
		if list.tenant != "" && other.tenant == list.tenant {
			ofTenant++
		}
	}
	if len(l.open) >= l.limit || ofCredential >= max(1, l.limit/4) || ofTenant >= max(1, l.limit/2) {
		return nil, false
	}
	l.open[browser] = list
	return list, true
}

// leave returns the slot, unless a newer list of the browser has taken it.
func (l *lives) leave(browser [sha256.Size]byte, list *liveList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[browser] == list {
		delete(l.open, browser)
	}
}

const (
	// liveOverlap is how far back each check reaches, because commits are not in the order of ids, and a delivery may
	// wait for its commit as long as the gate's deadline.
	liveOverlap = 12 * time.Second

	// arrivalReach is how far back the console looks for the first delivery of a source. It may have arrived while the
	// user was at the provider.
	arrivalReach = time.Hour

	// liveFor is how long a live list stays open. The browser then opens it again.
	liveFor = 10 * time.Minute

	// liveWrite is how long a browser may take to read a message. A slower one is dropped.
	liveWrite = 5 * time.Second

	// liveCount is the number up to which new rows are counted.
	liveCount = 200
)

// live reports new rows of a list as server-sent events. It sends how many rows are new, but not the rows.
func (c *Console) live(w http.ResponseWriter, hr *http.Request) {
	access, err := c.cfg.Authenticate(hr)
	if err != nil {
		w.WriteHeader(http.StatusNoContent) // makes the browser stop retrying
		return
	}
	browser := sha256.Sum256([]byte(access.Actor + "\x00" + hr.Header.Get("Cookie") + "\x00" + hr.Header.Get("Authorization")))
	list, ok := c.lives.begin(browser, access)
	if !ok {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	defer c.lives.leave(browser, list)
	s := &liveStream{
		console: c, request: hr, w: w, out: http.NewResponseController(w), caller: c.cfg.Caller(access), query: hr.URL.Query(),
		began: c.cfg.Now(), seen: map[string]bool{},
	}
	if err := s.open(); err != nil {
		return
	}
	s.follow(hr.Context(), list.end)
}

// liveStream is one open live list.
type liveStream struct {
	console *Console
	request *http.Request
	w       http.ResponseWriter
	out     *http.ResponseController
	caller  control.Caller
	query   url.Values
	began   time.Time
	seen    map[string]bool // the rows that were reported or existed when the list was opened
	count   int
	started bool
}

func (s *liveStream) open() error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // a proxy must not delay messages
	return s.send("retry: 10000\n\n")
}

// send writes a message. The browser has liveWrite to read it.
func (s *liveStream) send(message string) error {
	if err := s.out.SetWriteDeadline(s.console.cfg.Now().Add(liveWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write([]byte(message)); err != nil {
		return err
	}
	return s.out.Flush()
}

func (s *liveStream) event(name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return s.send(fmt.Sprintf("event: %s\ndata: %s\n\n", name, text))
}

// follow looks for new rows until the browser disconnects or opens another list, liveFor has passed, or the process
// stops.
func (s *liveStream) follow(ctx context.Context, end <-chan struct{}) {
	timer := time.NewTicker(s.console.cfg.Every)
	defer timer.Stop()
	for quiet := 0; ; quiet++ {
		fresh, err := s.look(ctx)
		switch {
		case err != nil:
			if _, unknown := errors.AsType[*control.Problem](err); unknown || s.console.cfg.Now().Sub(s.began) > liveFor {
				_ = s.event("end", struct{}{})
				return
			}
		case fresh != nil:
			if s.event(fresh.name, fresh.data) != nil {
				return
			}
			quiet = 0
		}
		if quiet > 0 && quiet%10 == 0 && s.send(": still here\n\n") != nil { // finds out whether the browser has disconnected
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-end:
			_ = s.event("end", struct{}{})
			return
		case <-s.console.cfg.Done:
			return
		case <-timer.C:
		}
		if s.console.cfg.Now().Sub(s.began) > liveFor {
			return
		}
	}
}

// freshRows is one message.
type freshRows struct {
	name string
	data any
}

// look reads the newest rows. The first call only records the rows that exist already.
func (s *liveStream) look(ctx context.Context) (*freshRows, error) {
	ctx, cancel := context.WithTimeout(ctx, s.console.cfg.Timeout)
	defer cancel()
	if _, err := s.console.cfg.Authenticate(s.request); err != nil { // a user who was logged out gets no more messages
		return nil, err
	}
	if s.count >= liveCount {
		return nil, nil // the page shows that there are many, and the user has not reloaded it since
	}
	keys, more, err := s.rows(ctx)
	if err != nil {
		return nil, err
	}
	var fresh []liveRow
	for _, row := range keys {
		if !s.seen[row.key] {
			s.seen[row.key] = true
			fresh = append(fresh, row)
		}
	}
	if !s.started {
		s.started = true
		if s.query.Get("list") != "arrival" || len(fresh) == 0 {
			return nil, nil
		}
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	if s.query.Get("list") == "arrival" {
		return &freshRows{"arrived", map[string]any{"href": fresh[0].href}}, nil
	}
	s.count = min(s.count+len(fresh), liveCount)
	return &freshRows{"new", map[string]any{"count": s.count, "more": more || s.count >= liveCount}}, nil
}

// liveRow is a row's id and link.
type liveRow struct{ key, href string }

// rows returns the rows that a check covers.
func (s *liveStream) rows(ctx context.Context) (rows []liveRow, more bool, err error) {
	defer func() { // the page has said that the filter names nothing
		if problem, ok := errors.AsType[*control.Problem](err); ok && problem.Code == control.CodeUnknownName {
			rows, more, err = nil, false, nil
		}
	}()
	since := s.began.Add(-liveOverlap)
	if now := s.console.cfg.Now(); s.started && now.Sub(since) > time.Minute {
		since = now.Add(-time.Minute)
	}
	switch list := s.query.Get("list"); list {
	case "events", "arrival":
		if list == "arrival" {
			since = s.began.Add(-arrivalReach)
		}
		page, err := control.Call(ctx, s.caller, &control.ListEvents, s.events(since))
		if err != nil {
			return nil, false, err
		}
		rows = liveRows(page.Data, func(e read.EventRow) liveRow { return liveRow{e.ID.String(), "/events/" + e.ID.String()} })
		more = page.HasMore
		if list == "arrival" && len(rows) == 0 {
			refused, err := control.Call(ctx, s.caller, &control.ListRefusals, control.ListRefusalsRequest{
				PageRequest: control.PageRequest{Limit: 1}, RefusalFilter: control.RefusalFilter{Source: s.query.Get("source"), Since: since},
			})
			if err != nil {
				return nil, false, err
			}
			rows = liveRows(refused.Data, func(e read.RefusalRow) liveRow { return liveRow{e.ID.String(), "/refusals/" + e.ID.String()} })
		}
	case "refusals":
		page, err := control.Call(ctx, s.caller, &control.ListRefusals, control.ListRefusalsRequest{
			PageRequest: control.PageRequest{Limit: liveCount}, RefusalFilter: control.RefusalFilter{Source: s.query.Get("source"), Cause: s.query.Get("cause"), Since: since},
		})
		if err != nil {
			return nil, false, err
		}
		rows, more = liveRows(page.Data, func(e read.RefusalRow) liveRow { return liveRow{e.ID.String(), "/refusals/" + e.ID.String()} }), page.HasMore
	default:
		return nil, false, &control.Problem{Code: control.CodeInvalid, Detail: "there is no such live list"}
	}
	return rows, more, nil
}

func (s *liveStream) events(since time.Time) control.ListEventsRequest {
	ask := control.ListEventsRequest{
		PageRequest: control.PageRequest{Limit: liveCount}, Source: s.query.Get("source"), Type: s.query.Get("type"), State: s.query.Get("state"),
		Route: s.query.Get("route"), Label: s.query.Get("label"), Since: since,
	}
	ask.Tenant = s.query.Get("tenant")
	return ask
}

func liveRows[Row any](from []Row, row func(Row) liveRow) []liveRow {
	out := make([]liveRow, len(from))
	for i, r := range from {
		out[i] = row(r)
	}
	return out
}
