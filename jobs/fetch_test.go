package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// thing is a sender's API. Each answer is made by the number of the request, from 1.
type thing struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string
	answer func(w http.ResponseWriter, request int)
}

func newThing(tb testing.TB, answer func(w http.ResponseWriter, request int)) *thing {
	tb.Helper()
	a := &thing{answer: answer}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.asked = append(a.asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Authorization"))
		n := len(a.asked)
		a.mu.Unlock()
		a.answer(w, n)
	}))
	tb.Cleanup(a.Close)
	return a
}

// changing answers with another amount each time.
func changing(w http.ResponseWriter, request int) { _, _ = fmt.Fprintf(w, `{"amount":%d}`, request) }

func (a *thing) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// fetch makes the fetch of an address, with the expressions that it has.
func fetch(tb testing.TB, address string, change func(*forward.FetcherConfig)) *jobs.Fetch {
	tb.Helper()
	cfg := forward.FetcherConfig{
		URL: address, Values: map[string]forward.Value{}, Bearer: func() (string, error) { return "hidden-token", nil },
	}
	_, texts, _, err := forward.SplitFetch(address)
	if err != nil {
		tb.Fatal(err)
	}
	for _, text := range texts {
		program, err := expression.Compile(text, expression.Value)
		if err != nil {
			tb.Fatal(err)
		}
		cfg.Values[text] = func(call *effect.Call) (string, error) { return program.Text(jobs.RequestInput(call)) }
	}
	if change != nil {
		change(&cfg)
	}
	f, err := forward.NewFetcher(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(f.Close)
	return &jobs.Fetch{Fetcher: f, Server: address}
}

// mapped is a mapping of one expression.
func mapped(tb testing.TB, source string) *expression.Mapping {
	tb.Helper()
	program, err := expression.CompileWithKey(source, expression.Value)
	if err != nil {
		tb.Fatal(err)
	}
	return expression.NewMapping(program)
}

// fetching are the routes, of which each fetches first and sends the amount that it got.
func (b *bundle) fetching(f *jobs.Fetch) map[int32]jobs.Route {
	return b.versioned(1, func(r *jobs.Route) {
		r.Fetch = f
		if r.Name != within {
			r.Map = mapped(b.tb, `{"amount": fetched.amount}`)
		}
	})
}

func (b *bundle) fetched(id inbox.ID) (stored []byte) {
	b.tb.Helper()
	if err := b.pool.QueryRow(b.tb.Context(), `SELECT fetched FROM effect WHERE id = $1`, id).Scan(&stored); err != nil {
		b.tb.Fatal(err)
	}
	return stored
}

// While the outcome of an attempt is unknown, the target gets the same bytes, although the thing changes. One request
// is made to the API. The answer is sealed, and an erasure removes it.
func TestTheFetchedAnswerIsFixedWithTheRequest(t *testing.T) {
	t.Parallel()
	for name, sealed := range map[string]bool{"plain": false, "sealed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if sealed {
				b.keyring = keyring(t, newKey+" active")
			}
			b.retry.Attempts = 1000
			source, target := newThing(t, changing), newAPI(t, http.StatusServiceUnavailable)
			b.client(jobs.Config{
				Routes: b.fetching(fetch(t, source.URL+"/things/{body.paid}?of={event.id}", nil)), Logger: slog.New(slog.DiscardHandler),
				Senders: map[string]effect.Sender{repeatable: addressed(t, target.URL+"/effects", true)},
			})
			id := b.admit(repeatable, 1)[0]
			b.eventually("three attempts with an unknown outcome", func() bool {
				b.dueNow()
				return b.row(id).Attempts >= 3
			})
			target.answers(http.StatusOK)
			b.eventually("it to be done", func() bool {
				b.dueNow()
				return b.row(id).State == string(inbox.EffectDone)
			})
			for i, got := range target.requests() {
				if got != `PUT /effects {"amount":1}` {
					t.Errorf("request %d: %s", i+1, got)
				}
			}
			if got, want := source.requests(), []string{"GET /things/1?of=" + id.String() + " Bearer hidden-token"}; !slices.Equal(got, want) {
				t.Errorf("the API was asked %q, want %q", got, want)
			}
			if stored := string(b.fetched(id)); (stored == `{"amount":1}`) == sealed || stored == "" {
				t.Errorf("stored %q", stored)
			}
			erased, err := prune.EraseEvent(t.Context(), b.pool, prune.Erase{Source: "shop", EventID: id.String(), Actor: "ann", Reason: "asked", Keyring: b.keyring})
			if err != nil || erased.Effects != 1 || b.fetched(id) != nil {
				t.Errorf("erased %+v, %v, left %q", erased, err, b.fetched(id))
			}
		})
	}
}

// A fetch without an answer is repeated, and nothing is sent meanwhile: also a target that cannot deduplicate gets the
// effect once, and no outcome is unknown.
func TestAFetchThatFailsIsCertain(t *testing.T) {
	t.Parallel()
	for _, route := range []string{repeatable, once, within} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			source := newThing(t, func(w http.ResponseWriter, request int) {
				switch request {
				case 1:
					panic(http.ErrAbortHandler)
				case 2:
					w.WriteHeader(http.StatusBadGateway)
				default:
					changing(w, request)
				}
			})
			target := newAPI(t, http.StatusOK)
			var handled []string
			b.client(jobs.Config{
				Routes: b.fetching(fetch(t, source.URL+"/{body.paid}", nil)), Logger: slog.New(slog.DiscardHandler),
				Senders: map[string]effect.Sender{repeatable: addressed(t, target.URL, true), once: addressed(t, target.URL, false)},
				Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(_ context.Context, _ pgx.Tx, e effect.Event) error {
					handled = append(handled, string(e.Fetched))
					return nil
				})},
			})
			id := b.admit(route, 1)[0]
			b.eventually("it to be done", func() bool {
				b.dueNow()
				return b.row(id).State == string(inbox.EffectDone)
			})
			if got := b.outcomes(id); !slices.Equal(got, []string{"retry", "retry", "done"}) {
				t.Errorf("attempts %v", got)
			}
			if n := b.count(`SELECT count(*) FROM effect_attempt WHERE reason = $1`, reasons.FetchFailed); n != 2 {
				t.Errorf("%d attempts failed by their fetch, want 2", n)
			}
			if n := b.count(`SELECT count(*) FROM effect WHERE unknown_since IS NOT NULL`); n != 0 {
				t.Error("the outcome was unknown")
			}
			got := append(target.requests(), handled...)
			if want := map[string]string{within: `{"amount":3}`}[route]; len(got) != 1 || !strings.HasSuffix(got[0], `{"amount":3}`) || want != "" && got[0] != want {
				t.Errorf("the target got %q", got)
			}
		})
	}
}

// What a retry would get again makes a dead letter that says why. The target gets nothing, and the token is in no row.
func TestWhatAFetchRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := newAPI(t, http.StatusOK)
	status := func(status int, body string) func(http.ResponseWriter, int) {
		return func(w http.ResponseWriter, _ int) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	plain := func(f *forward.FetcherConfig) {}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, int)
		path   string
		change func(*forward.FetcherConfig)
		reason string
		said   string // the beginning of the excerpt
		code   string
	}{
		"no credential":  {status(401, "who is hidden-token?"), "/{body.paid}", plain, "fetch_refused", "fetch: it was answered with 401: the credential is missing, wrong or has expired: who is <header>?", "401"},
		"not allowed":    {status(403, ""), "/{body.paid}", plain, "fetch_refused", "fetch: it was answered with 403: the credential may not read it", "403"},
		"not there":      {status(404, `{}`), "/{body.paid}", plain, "fetch_refused", "fetch: it was answered with 404: what the event names does not exist there, or no longer", "404"},
		"gone":           {status(410, ""), "/{body.paid}", plain, "fetch_refused", "fetch: it was answered with 410", "410"},
		"redirect":       {status(302, ""), "/{body.paid}", plain, "fetch_refused", "fetch: it was answered with 302: redirects are not followed", "302"},
		"no JSON":        {status(200, "<html>"), "/{body.paid}", plain, "fetch_refused", "fetch: the answer is not JSON: 6 bytes", "200"},
		"empty":          {status(204, ""), "/{body.paid}", plain, "fetch_refused", "fetch: the answer is not JSON: 0 bytes", "204"},
		"two documents":  {status(200, `{}{}`), "/{body.paid}", plain, "fetch_refused", "fetch: the answer is not JSON", "200"},
		"too large":      {status(200, `"123456789"`), "/{body.paid}", func(f *forward.FetcherConfig) { f.MaxSize = 10 }, "fetch_refused", "fetch: the answer is longer than max_size, 10 bytes", "200"},
		"missing member": {status(200, `{}`), "/{body.absent}", plain, "mapping_failed", "fetch: url: body.absent: a field is missing", ""},
		"missing answer": {status(200, `{}`), "/{body.paid}", plain, "mapping_failed", `map: {"amount": fetched.amount}: a field is missing`, ""},
		"climbing":       {status(200, `{}`), "/{'../secret'}", plain, "mapping_failed", "fetch: url: '../secret': the value has a slash", ""},
		"other server":   {status(200, `{}`), "{'https://other.example/' + event.id}", func(f *forward.FetcherConfig) { f.Hosts = []string{"api.example", "*.shop.example"} }, "fetch_refused", "fetch: url: 'https://other.example/' + event.id: the value is an address at a server that hosts does not name", ""},
		"user":           {status(200, `{}`), "{'https://u:p@api.example/'}", func(f *forward.FetcherConfig) { f.Hosts = []string{"api.example"} }, "fetch_refused", "fetch: url: 'https://u:p@api.example/': the value is not an address", ""},
		"in the clear":   {status(200, `{}`), "{'http://api.example/'}", func(f *forward.FetcherConfig) { f.Hosts = []string{"api.example"} }, "fetch_refused", "fetch: url: 'http://api.example/': the value is an address at a server that hosts does not name", ""},
	} {
		source := newThing(t, c.answer)
		address := c.path
		if strings.HasPrefix(address, "/") {
			address = source.URL + address
		}
		client := b.client(jobs.Config{
			Store: b.store("node-" + name), Routes: b.fetching(fetch(t, address, c.change)), Logger: slog.New(slog.DiscardHandler),
			Senders: map[string]effect.Sender{once: addressed(t, target.URL, false)},
		})
		id := b.admit(once, 1)[0]
		b.eventuallyState(id, inbox.EffectDead)
		if row := b.row(id); row.Reason != c.reason || row.Attempts != 1 {
			t.Errorf("%s: %+v, want it dead by %s", name, row, c.reason)
		}
		if said := b.text(`SELECT excerpt FROM effect_attempt WHERE effect_id = $1`, id); !strings.HasPrefix(said, c.said) || strings.Contains(said, "hidden") {
			t.Errorf("%s: %q, want %q", name, said, c.said)
		}
		if code := b.text(`SELECT coalesce(code, '') FROM effect_attempt WHERE effect_id = $1`, id); code != c.code {
			t.Errorf("%s: code %q, want %q", name, code, c.code)
		}
		b.stop(client)
		if n := len(source.requests()); n > 1 {
			t.Errorf("%s: the API was asked %d times", name, n)
		}
	}
	if got := target.requests(); len(got) > 0 {
		t.Errorf("sent: %q", got)
	}
}

// An answer that does not end costs one attempt at most its time.
func TestAFetchIsBoundedInTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.retry.Attempts = 1
	over := make(chan struct{})
	source := newThing(t, func(w http.ResponseWriter, _ int) {
		_, _ = w.Write([]byte(`{"amount":`))
		_ = http.NewResponseController(w).Flush()
		<-over
	})
	t.Cleanup(func() { close(over) })
	target := newAPI(t, http.StatusOK)
	f := fetch(t, source.URL+"/{body.paid}", nil)
	f.Timeout = 100 * time.Millisecond
	b.client(jobs.Config{
		Routes: b.fetching(f), Logger: slog.New(slog.DiscardHandler),
		Senders: map[string]effect.Sender{once: addressed(t, target.URL, false)},
	})
	id := b.admit(once, 1)[0]
	b.eventuallyState(id, inbox.EffectDead)
	if got := b.text(`SELECT reason FROM effect_attempt WHERE effect_id = $1`, id); got != string(reasons.FetchFailed) || b.row(id).Reason != string(reasons.Exhausted) {
		t.Errorf("%s, %+v", got, b.row(id))
	}
	if got := target.requests(); len(got) > 0 {
		t.Errorf("sent: %q", got)
	}
}

// A Retry-After of the API postpones the effect, and the other fetches of the server.
func TestAFetchKeepsTheRetryAfter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	source := newThing(t, func(w http.ResponseWriter, _ int) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	b.client(jobs.Config{
		Routes: b.fetching(fetch(t, source.URL+"/{body.paid}", nil)), Logger: slog.New(slog.DiscardHandler), MaxWorkers: 1,
		Senders: map[string]effect.Sender{once: &sink{}},
	})
	id := b.admit(once, 1)[0]
	b.eventually("it to wait as long as the API asks", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE id = $1 AND state = 'retry' AND next_at > now() + interval '3500 s'`, id) == 1
	})
	second := b.admit(once, 1)[0]
	b.eventually("the second one to be put off without an attempt", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE id = $1 AND reason = $2 AND attempts = 0`, second, reasons.Rate) == 1
	})
	if n := len(source.requests()); n != 1 {
		t.Errorf("the API was asked %d times", n)
	}
}

// A worker that was killed before it stored the answer has sent nothing: the next attempt fetches again, and the
// condition is asked also at a target that deduplicates. After the answer was stored, that target may have got it, so
// the same answer is used; a target that cannot deduplicate has not, because nothing says that a send began.
func TestAWorkerIsKilledAroundItsFetch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		route  string
		stored bool
		when   string
		state  inbox.EffectState
		sent   []string
		asked  int
	}{
		"before it is stored":                             {repeatable, false, "fetched.amount == 1", inbox.EffectDone, []string{`PUT / {"amount":1}`}, 1},
		"before it is stored, and the condition is false": {repeatable, false, "fetched.amount == 7", inbox.EffectSkipped, nil, 1},
		"after it was stored":                             {repeatable, true, "fetched.amount == 7", inbox.EffectDone, []string{`PUT / {"amount":7}`}, 0},
		"after it was stored, the target knows no keys":   {once, true, "fetched.amount == 1", inbox.EffectDone, []string{`PUT / {"amount":1}`}, 1},
		"after it was stored, inside the database":        {within, true, "fetched.amount == 1", inbox.EffectDone, nil, 1},
		"before it is stored, the target knows no keys":   {once, false, "fetched.amount == 1", inbox.EffectDone, []string{`PUT / {"amount":1}`}, 1},
		"inside the database, and the condition is false": {within, true, "fetched.amount == 7", inbox.EffectSkipped, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			source, target := newThing(t, changing), newAPI(t, http.StatusOK)
			id := b.admit(c.route, 1)[0]
			killed := b.store("killed")
			if c.route == within {
				b.exec(`UPDATE effect SET fetched = '{"amount":7}', unfinished = true WHERE id = $1`, id)
			} else {
				claim := b.claim(killed, id)
				if c.stored {
					if mine, err := killed.KeepFetched(t.Context(), claim, []byte(`{"amount":7}`)); !mine || err != nil {
						t.Fatal(mine, err)
					}
				}
				b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s'`)
				if mine, err := killed.KeepFetched(t.Context(), claim, []byte(`{"amount":8}`)); mine || err != nil {
					t.Fatalf("a claim whose lease has ended stored an answer: %t, %v", mine, err)
				}
			}
			when, err := expression.CompileWithFetched(c.when, expression.Condition)
			if err != nil {
				t.Fatal(err)
			}
			routes := b.fetching(fetch(t, source.URL+"/{body.paid}", nil))
			for id, r := range routes {
				r.When = when
				routes[id] = r
			}
			b.client(jobs.Config{
				Store: b.store("node-2"), Routes: routes, SweepEvery: 50 * time.Millisecond,
				Senders: map[string]effect.Sender{repeatable: addressed(t, target.URL+"/", true), once: addressed(t, target.URL+"/", false)},
			})
			b.eventually("its end", func() bool {
				b.dueNow()
				return b.row(id).State == string(c.state)
			})
			if got := target.requests(); !slices.Equal(got, c.sent) {
				t.Errorf("sent %q, want %q", got, c.sent)
			}
			if got := source.requests(); len(got) != c.asked {
				t.Errorf("asked %q, want %d", got, c.asked)
			}
		})
	}
}

// A failed attempt inside the database is rolled back, so that the next one fetches again.
func TestInsideTheDatabaseEachAttemptFetches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	source := newThing(t, changing)
	var got []string
	b.client(jobs.Config{
		Routes: b.fetching(fetch(t, source.URL+"/{body.paid}", nil)), Logger: slog.New(slog.DiscardHandler),
		Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(_ context.Context, _ pgx.Tx, e effect.Event) error {
			if got = append(got, string(e.Fetched)); len(got) == 1 {
				return errors.New("not yet")
			}
			return nil
		})},
	})
	id := b.admit(within, 1)[0]
	b.eventually("it to be done", func() bool {
		b.dueNow()
		return b.row(id).State == string(inbox.EffectDone)
	})
	if want := []string{`{"amount":1}`, `{"amount":2}`}; !slices.Equal(got, want) || string(b.fetched(id)) != want[1] {
		t.Errorf("the handler got %q, and %q is stored", got, b.fetched(id))
	}
}

// A preview fetches nothing. Without a stored answer it says that nothing is known.
func TestAPreviewFetchesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	source := newThing(t, changing)
	p := jobs.Previewer{
		Routes:  b.fetching(fetch(t, source.URL+"/{body.paid}", nil)),
		Senders: map[string]effect.Sender{repeatable: addressed(t, "http://target.example", true)},
	}
	claim := &inbox.Claim{RouteID: b.routes[repeatable], Attempt: 1, Key: "k", Event: inbox.ClaimedEvent{Body: []byte(`{"paid":1}`)}}
	if got := p.Preview(claim); !got.Known || !got.Unfetched || got.State != "" || got.Request.Body != nil {
		t.Errorf("without an answer: %+v", got)
	}
	if call, got := p.DryCall(claim, "dry"); call != nil || !got.Unfetched {
		t.Errorf("a dry run: %+v", call)
	}
	claim.Fetched = []byte(`{"amount":9}`)
	if got := p.Preview(claim); got.Unfetched || string(got.Request.Body) != `{"amount":9}` {
		t.Errorf("with an answer: %+v", got)
	}
	if n := len(source.requests()); n != 0 {
		t.Errorf("the API was asked %d times", n)
	}
}
