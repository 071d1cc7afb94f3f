package jobs_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// api is a target that remembers what it was asked, and answers as it is told.
type api struct {
	*httptest.Server

	mu     sync.Mutex
	asked  []string // method, address and body
	answer int
}

func newAPI(tb testing.TB, answer int) *api {
	tb.Helper()
	a := &api{answer: answer}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		_ = r.Write(body)
		_, content, _ := strings.Cut(body.String(), "\r\n\r\n")
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked = append(a.asked, r.Method+" "+r.RequestURI+" "+content)
		w.WriteHeader(a.answer)
	}))
	tb.Cleanup(a.Close)
	return a
}

func (a *api) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

func (a *api) answers(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = status
}

// addressed gives a sender to the address, with the expressions that it has.
func addressed(tb testing.TB, address string, idempotent bool) effect.Sender {
	tb.Helper()
	_, texts, err := forward.SplitAddress(address)
	if err != nil {
		tb.Fatal(err)
	}
	values := map[string]forward.Value{}
	for _, text := range texts {
		program, err := expression.CompileWithKey(text, expression.Value)
		if err != nil {
			tb.Fatal(err)
		}
		values[text] = func(call *effect.Call) (string, error) { return program.Text(jobs.RequestInput(call)) }
	}
	f, err := forward.New(forward.Config{URL: address, Values: values, Method: http.MethodPut, Idempotent: idempotent})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(f.Close)
	return f
}

// versioned are the routes, in a version of theirs.
func (b *bundle) versioned(version int, change func(*jobs.Route)) map[int32]jobs.Route {
	return b.changed(func(r *jobs.Route) {
		if r.Version = version; change != nil {
			change(r)
		}
	})
}

// dueNow makes all that waits due at once.
func (b *bundle) dueNow() {
	b.exec(`UPDATE effect SET next_at = now() WHERE state IN ('pending', 'retry')`)
	b.exec(`UPDATE river_job SET scheduled_at = now(), state = 'available' WHERE state IN ('scheduled', 'retryable')`)
}

// The address of the first attempt is the address of all of them: also after a process of
// another configuration has taken over, whose address or mapping differs.
func TestEveryAttemptGoesToTheAddressOfTheFirst(t *testing.T) {
	t.Parallel()
	for name, sealed := range map[string]bool{"plain": false, "sealed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if sealed {
				b.keyring = keyring(t, newKey+" active")
			}
			target := newAPI(t, http.StatusServiceUnavailable)
			b.retry.Base, b.retry.Max, b.retry.Attempts = 1, 1, 1000
			before := b.client(jobs.Config{
				Routes: b.versioned(1, nil), Logger: slog.New(slog.DiscardHandler),
				Senders: map[string]effect.Sender{repeatable: addressed(t, target.URL+"/orders/{body.paid}?of={event.id}", true)},
			})
			id := b.admit(repeatable, 1)[0]
			b.eventually("an attempt whose outcome is unknown", func() bool {
				b.dueNow()
				return b.count(`SELECT count(*) FROM effect WHERE unknown_since IS NOT NULL AND attempts > 1`) == 1
			})
			b.stop(before)
			if stored := b.row(id).Rendered; strings.Contains(string(stored), "orders") == sealed || len(stored) == 0 {
				t.Errorf("stored %q", stored)
			}
			target.answers(http.StatusOK)
			mapping, err := expression.CompileWithKey(`{"changed": true}`, expression.Value)
			if err != nil {
				t.Fatal(err)
			}
			b.client(jobs.Config{
				Store: b.store("node-2"), Routes: b.versioned(2, func(r *jobs.Route) { r.Map = expression.NewMapping(mapping) }),
				Senders: map[string]effect.Sender{repeatable: addressed(t, target.URL+"/other/{event.id}", true)},
			})
			b.eventually("it to be done", func() bool {
				b.dueNow()
				return b.row(id).State == string(inbox.EffectDone)
			})
			want := "PUT /orders/1?of=" + id.String() + ` {"paid":1}`
			for i, got := range target.requests() {
				if got != want {
					t.Errorf("request %d: %s, want %s", i+1, got, want)
				}
			}
			// A new effect has the new address.
			later := b.admit(repeatable, 1)[0]
			b.eventuallyState(later, inbox.EffectDone)
			requests := target.requests()
			if got := requests[len(requests)-1]; got != "PUT /other/"+later.String()+` {"changed":true}` {
				t.Errorf("a later effect: %s", got)
			}
		})
	}
}

// Where a value is missing or hostile nothing is sent, and the effect says why.
func TestAnAddressThatCannotBeMadeSendsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := newAPI(t, http.StatusOK)
	for i, c := range []struct{ expression, want string }{
		{"body.absent", "url: body.absent: a field is missing"},
		{"body.?absent", "url: body.?absent: a field is null"},
		{"[body.paid]", "url: [body.paid]: a value has the wrong type"},
		{"event.id + '/../x'", "url: event.id + '/../x': the value has a slash or a backslash, which would change the path"},
	} {
		client := b.client(jobs.Config{
			Store: b.store("node-" + c.expression), Routes: b.versioned(1, nil), Logger: slog.New(slog.DiscardHandler),
			Senders: map[string]effect.Sender{once: addressed(t, target.URL+"/orders/{"+c.expression+"}", false)},
		})
		id := b.admit(once, 1)[0]
		b.eventuallyState(id, inbox.EffectDead)
		if row := b.row(id); row.Reason != reasons.Mapping || row.Rendered != nil {
			t.Errorf("%d: %+v, want it dead by its mapping", i, row)
		}
		if said := b.text(`SELECT excerpt FROM effect_attempt WHERE effect_id = $1`, id); said != c.want {
			t.Errorf("%q, want %q", said, c.want)
		}
		b.stop(client)
	}
	if got := target.requests(); len(got) > 0 {
		t.Errorf("sent: %q", got)
	}
}

// What may have happened at one server is not sent to another one; what certainly did not
// happen goes where the configuration says by now.
func TestAnotherServerIsAnotherPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer int
		state  inbox.EffectState
		today  string // behind the other server's address
		sent   string
	}{
		"it may have happened":                 {http.StatusServiceUnavailable, inbox.EffectIndeterminate, "/orders/{body.paid}", ""},
		"it may have happened, now fixed":      {http.StatusServiceUnavailable, inbox.EffectIndeterminate, "/orders", ""},
		"it was refused":                       {http.StatusTooManyRequests, inbox.EffectDone, "/v2/{body.paid}", `PUT /v2/1 {"paid":1}`},
		"it was refused, now one for all":      {http.StatusTooManyRequests, inbox.EffectDone, "/v2", `PUT /v2 {"paid":1}`},
		"one for all before, may have":         {0, inbox.EffectIndeterminate, "/orders/{body.paid}", ""},
		"one for all before, and it was lost":  {-1, inbox.EffectDone, "/orders/{body.paid}", `PUT /orders/1 {"paid":1}`},
		"its process died before it was begun": {-2, inbox.EffectDone, "/orders/{body.paid}", `PUT /orders/1 {"paid":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.retry.Base, b.retry.Max, b.retry.Attempts = 1, 1, 1000
			target, other := newAPI(t, max(c.answer, 100)), newAPI(t, http.StatusOK)
			id, version := inbox.ID{}, 2
			switch {
			case c.answer > 0:
				before := b.client(jobs.Config{
					Routes: b.versioned(1, nil), Logger: slog.New(slog.DiscardHandler),
					Senders: map[string]effect.Sender{repeatable: addressed(t, target.URL+"/orders/{body.paid}", true)},
				})
				id = b.admit(repeatable, 1)[0]
				b.eventually("an attempt", func() bool { return b.count(`SELECT count(*) FROM effect_attempt`) > 0 })
				b.stop(before)
			case c.answer == 0: // it was sent, under a version of the route whose target had one address
				id = b.admit(repeatable, 1)[0]
				b.exec(`UPDATE effect SET unknown_since = now() - interval '1 hour', attempts = 1, state = 'retry'`)
			case c.answer == -1:
				id = b.admit(repeatable, 1)[0]
			case c.answer == -2: // claimed under this version, and nothing stored: nothing was sent
				version = 1
				id = b.admit(repeatable, 1)[0]
				b.exec(`UPDATE effect SET unknown_since = now() - interval '1 hour', attempts = 1, state = 'retry'`)
			}
			b.exec(`UPDATE effect SET unknown_since = now() - interval '1 hour' WHERE unknown_since IS NOT NULL`)
			b.client(jobs.Config{
				Store: b.store("node-2"), Routes: b.versioned(version, nil), Logger: slog.New(slog.DiscardHandler),
				Senders: map[string]effect.Sender{repeatable: addressed(t, other.URL+c.today, true)},
			})
			b.eventually("its end", func() bool {
				b.dueNow()
				return b.row(id).State == string(c.state)
			})
			if got := strings.Join(other.requests(), ", "); got != c.sent {
				t.Errorf("the other server got %q, want %q", got, c.sent)
			}
			if row := b.row(id); c.state == inbox.EffectIndeterminate && row.Reason != string(reasons.Elsewhere) {
				t.Errorf("%+v, want the reason %s", row, reasons.Elsewhere)
			}
		})
	}
}

// Mappings see the key, and what they make is the same in every attempt.
func TestMappingsSeeTheKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := newAPI(t, http.StatusOK)
	key, err := expression.CompileWithKey("key", expression.Value)
	if err != nil {
		t.Fatal(err)
	}
	b.client(jobs.Config{
		Routes: b.versioned(1, func(r *jobs.Route) {
			r.Map = expression.NewObject(map[string]*expression.Mapping{"MessageDeduplicationId": expression.NewMapping(key)})
		}),
		Senders: map[string]effect.Sender{repeatable: addressed(t, target.URL+"/v1/{key_uuid}", true)},
	})
	id := b.admit(repeatable, 1)[0]
	b.eventuallyState(id, inbox.EffectDone)
	if got := target.requests(); len(got) != 1 || !strings.HasSuffix(got[0], `{"MessageDeduplicationId":"key-`+id.String()+`"}`) || len(got[0]) < len("PUT /v1/")+36 {
		t.Errorf("%q", got)
	}
}
