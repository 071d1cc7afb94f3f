package oncegate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/trials/rig"
)

const secret = "whsec_test"

// limit is how long something may take at most on a busy machine.
const limit = 60 * time.Second

// world is an Inbox in a server of its own.
type world struct {
	cfg    oncegate.Config
	og     *oncegate.Inbox
	server *httptest.Server
	pool   *pgxpool.Pool
	stop   context.CancelFunc
	ended  chan error
}

// invoices is the Config of one source whose paid invoices go to the handler ledger.
func invoices(url, schema string) oncegate.Config {
	return oncegate.Config{
		DatabaseURL: url, Schema: schema, Logger: slog.New(slog.DiscardHandler),
		Sources: []oncegate.Source{{
			Name: "stripe", Secrets: []oncegate.Secret{oncegate.Value(secret)},
			Routes: []oncegate.Route{{
				Name: "ledger", Types: []string{"invoice.paid"},
				Retry: oncegate.Retry{Attempts: 5, Base: 10 * time.Millisecond, Max: 50 * time.Millisecond},
			}},
		}},
	}
}

// open opens an Inbox on a schema of its own, with a table ledger beside Oncegate's.
func open(t *testing.T, change func(*oncegate.Config)) *world {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	cfg := invoices(url, schema)
	if change != nil {
		change(&cfg)
	}
	w := openAs(t, cfg)
	if _, err := w.pool.Exec(t.Context(), `CREATE TABLE ledger (event text NOT NULL, body bytea)`); err != nil {
		t.Fatal(err)
	}
	return w
}

func openAs(t *testing.T, cfg oncegate.Config) *world {
	t.Helper()
	og, err := oncegate.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/in/", og.Handler())
	w := &world{cfg: cfg, og: og, server: httptest.NewServer(mux), pool: inboxtest.Open(t, cfg.DatabaseURL, cfg.Schema, "admin", 2)}
	t.Cleanup(w.server.Close)
	t.Cleanup(func() {
		if err := og.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return w
}

// run runs the Inbox until the test ends or stops it.
func (w *world) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w.stop, w.ended = stop, make(chan error, 1)
	t.Cleanup(stop)
	go func() { w.ended <- w.og.Run(ctx) }()
	select {
	case <-w.og.Started():
	case err := <-w.ended:
		t.Fatalf("Run ended before it started: %v", err)
	case <-time.After(limit):
		t.Fatal("not started in time")
	}
}

// halt ends Run's context and waits for Run.
func (w *world) halt(t *testing.T) {
	t.Helper()
	w.stop()
	select {
	case err := <-w.ended:
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
	case <-time.After(limit):
		t.Fatal("Run does not end")
	}
}

// deliver sends a signed event and gives the answer, whose body is closed.
func (w *world) deliver(t *testing.T, id string) *http.Response {
	t.Helper()
	now := time.Now()
	body := fmt.Sprintf(`{"id":%q,"object":"event","created":%d,"type":"invoice.paid"}`, id, now.Unix())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+"/in/stripe", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Stripe-Signature", rig.StripeSignature(secret, now, []byte(body)))
	response, err := (&http.Client{Timeout: limit}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response
}

// acknowledged delivers and wants a 200.
func (w *world) acknowledged(t *testing.T, id string) {
	t.Helper()
	if response := w.deliver(t, id); response.StatusCode != http.StatusOK {
		t.Fatalf("delivery %s: status %d, want 200", id, response.StatusCode)
	}
}

// count gives the one number that a query selects.
func (w *world) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// await polls until a query selects a number.
func (w *world) await(t *testing.T, want int, query string, args ...any) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		got := w.count(t, query, args...)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d, want %d", query, got, want)
		}
	}
}

// book is a handler that writes the event into the table ledger.
func book(ctx context.Context, tx pgx.Tx, e oncegate.Event) error {
	_, err := tx.Exec(ctx, `INSERT INTO ledger (event, body) VALUES ($1, $2)`, e.EventID, e.Body)
	return err
}

func attach(t *testing.T, og *oncegate.Inbox, route string, handle func(context.Context, pgx.Tx, oncegate.Event) error) {
	t.Helper()
	if err := og.Handle(route, handle); err != nil {
		t.Fatal(err)
	}
}

func TestADeliveryIsHandledOnce(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	attach(t, w.og, "ledger", book)
	w.run(t)
	for range 3 {
		w.acknowledged(t, "evt_1")
	}
	w.acknowledged(t, "evt_2")
	w.await(t, 2, `SELECT count(*) FROM effect WHERE state = 'done'`)
	if n := w.count(t, `SELECT count(*) FROM ledger`); n != 2 {
		t.Errorf("the handler wrote %d rows for 2 events, one of them delivered three times", n)
	}
	if n := w.count(t, `SELECT count(DISTINCT event) FROM ledger WHERE body IS NOT NULL`); n != 2 {
		t.Errorf("%d events in the ledger, want 2", n)
	}
	if n := w.count(t, `SELECT deliveries FROM inbox_event WHERE event_id = 'evt_1'`); n != 3 {
		t.Errorf("%d deliveries of evt_1 counted, want 3", n)
	}
	w.halt(t)
}

// What a handler wrote before it failed is rolled back, and the next attempt writes it.
func TestAHandlerThatFailsIsCalledAgain(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	var mu sync.Mutex
	calls := 0
	attach(t, w.og, "ledger", func(ctx context.Context, tx pgx.Tx, e oncegate.Event) error {
		if err := book(ctx, tx, e); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	w.run(t)
	w.acknowledged(t, "evt_1")
	w.await(t, 1, `SELECT count(*) FROM effect WHERE state = 'done'`)
	if n := w.count(t, `SELECT count(*) FROM ledger`); n != 1 {
		t.Errorf("%d rows after two attempts that failed and one that did not, want 1", n)
	}
	if n := w.count(t, `SELECT count(*) FROM effect_attempt`); n != 3 {
		t.Errorf("%d attempts recorded, want 3", n)
	}
	w.halt(t)
}

func TestAPermanentErrorIsADeadLetter(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	attach(t, w.og, "ledger", func(context.Context, pgx.Tx, oncegate.Event) error {
		return oncegate.Permanent(errors.New("no such account"))
	})
	w.run(t)
	w.acknowledged(t, "evt_1")
	w.await(t, 1, `SELECT count(*) FROM effect WHERE state = 'dead' AND attempts = 1`)
	w.halt(t)
}

// A handler outside the database is called under one key. An attempt whose end is open is the
// last one, unless the other side deduplicates.
func TestAHandlerOutsideTheDatabase(t *testing.T) {
	t.Parallel()
	for _, deduplicates := range []bool{true, false} {
		t.Run(fmt.Sprintf("Deduplicates=%t", deduplicates), func(t *testing.T) {
			t.Parallel()
			w := open(t, nil)
			var mu sync.Mutex
			keys := map[string]int{}
			err := w.og.HandleOutside("ledger", oncegate.OutsideHandler{
				Deduplicates: deduplicates,
				Handle: func(_ context.Context, call *oncegate.Call) ([]byte, error) {
					mu.Lock()
					defer mu.Unlock()
					if keys[call.Key]++; keys[call.Key] == 1 {
						return nil, errors.New("the connection was cut")
					}
					return nil, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			w.run(t)
			w.acknowledged(t, "evt_1")
			state, calls := "indeterminate", 1
			if deduplicates {
				state, calls = "done", 2
			}
			w.await(t, 1, `SELECT count(*) FROM effect WHERE state = $1`, state)
			w.halt(t)
			if len(keys) != 1 {
				t.Fatalf("%d keys, want one", len(keys))
			}
			for key, n := range keys {
				if n != calls {
					t.Errorf("called %d times under %s, want %d", n, key, calls)
				}
			}
		})
	}
}

func TestHandlersAreChecked(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	for _, c := range []struct {
		name   string
		attach func(og *oncegate.Inbox) error
		want   string
	}{
		{"None", func(*oncegate.Inbox) error { return nil }, `route "ledger" of source "stripe" has neither a target nor a handler: call Handle("ledger", ...) before Run`},
		{"Unknown", func(og *oncegate.Inbox) error { return og.Handle("ledgre", book) }, `no route "ledgre" without a target; those that need a handler are ledger`},
		{"Nil", func(og *oncegate.Inbox) error { return og.Handle("ledger", nil) }, `the handler of route "ledger" is nil`},
		{"NilOutside", func(og *oncegate.Inbox) error { return og.HandleOutside("ledger", oncegate.OutsideHandler{}) }, `the handler of route "ledger" is nil`},
		{"Twice", func(og *oncegate.Inbox) error {
			return errors.Join(og.Handle("ledger", book), og.Handle("ledger", book))
		}, `route "ledger" has two handlers`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			og, err := oncegate.Open(t.Context(), invoices(url, schema))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.attach(og); c.name != "None" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("attaching: %v, want %q", err, c.want)
			}
			// Whoever does not look at the error is told by Run.
			if err := og.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run: %v, want %q", err, c.want)
			}
			if err := og.Handle("ledger", book); !errors.Is(err, oncegate.ErrClosed) {
				t.Errorf("after Run has failed: %v, want ErrClosed", err)
			}
			if err := og.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A process that only receives needs no handlers, and one that only works takes no deliveries.
func TestRolesShareTheWork(t *testing.T) {
	t.Parallel()
	receiver := open(t, func(cfg *oncegate.Config) { cfg.Role = oncegate.Receive })
	receiver.run(t)
	receiver.acknowledged(t, "evt_1")
	cfg := receiver.cfg
	cfg.Role = oncegate.Work
	worker := openAs(t, cfg)
	attach(t, worker.og, "ledger", book)
	worker.run(t)
	worker.await(t, 1, `SELECT count(*) FROM effect WHERE state = 'done'`)
	if response := worker.deliver(t, "evt_2"); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d of a process that only works, want 503", response.StatusCode)
	}
	if n := worker.count(t, `SELECT count(*) FROM route`); n != 1 {
		t.Errorf("%d routes, want 1", n)
	}
	if n := worker.count(t, `SELECT max(version) FROM route`); n != 1 {
		t.Errorf("the roles gave the route version %d: they do not describe it alike", n)
	}
	worker.halt(t)
	receiver.halt(t)
}

func TestAnInboxRunsOnce(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	attach(t, w.og, "ledger", book)
	w.run(t)
	if err := w.og.Run(t.Context()); !errors.Is(err, oncegate.ErrRunning) {
		t.Errorf("a second Run: %v, want ErrRunning", err)
	}
	if err := w.og.Handle("ledger", book); !errors.Is(err, oncegate.ErrRunning) || !strings.Contains(err.Error(), `"ledger"`) {
		t.Errorf("Handle after Run: %v, want ErrRunning with the route's name", err)
	}
	w.acknowledged(t, "evt_1")
	w.halt(t)
	if err := w.og.Run(t.Context()); !errors.Is(err, oncegate.ErrClosed) {
		t.Errorf("Run after Run has ended: %v, want ErrClosed", err)
	}
}

func TestCloseBeforeRun(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	attach(t, w.og, "ledger", book)
	for range 2 {
		if err := w.og.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.og.Run(t.Context()); !errors.Is(err, oncegate.ErrClosed) {
		t.Errorf("Run after Close: %v, want ErrClosed", err)
	}
	if response := w.deliver(t, "evt_1"); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d after Close, want 503", response.StatusCode)
	}
}

func TestCloseEndsRun(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	attach(t, w.og, "ledger", book)
	w.run(t)
	w.acknowledged(t, "evt_1")
	var closing sync.WaitGroup
	for range 2 {
		closing.Go(func() {
			if err := w.og.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	select {
	case err := <-w.ended:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(limit):
		t.Error("Run goes on after Close")
	}
}

// Deliveries are refused for now before Run and from its context's end on, while what is under
// way is finished and recorded.
func TestTheEndOfTheContextDrains(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	arrived, release := make(chan struct{}), make(chan struct{})
	attach(t, w.og, "ledger", func(ctx context.Context, tx pgx.Tx, e oncegate.Event) error {
		close(arrived)
		<-release
		return book(ctx, tx, e)
	})
	refused := func(when string) *http.Response {
		t.Helper()
		response := w.deliver(t, "evt_2")
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "5" {
			t.Errorf("%s: status %d, Retry-After %q; want 503 and 5", when, response.StatusCode, response.Header.Get("Retry-After"))
		}
		return response
	}
	refused("before Run")
	if err := w.og.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "process: starting") {
		t.Errorf("ready before Run: %v", err)
	}
	w.run(t)
	if err := w.og.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	w.acknowledged(t, "evt_1")
	<-arrived
	w.stop()
	for deadline := time.Now().Add(limit); ; {
		err := w.og.Ready(t.Context())
		if err != nil && strings.Contains(err.Error(), "process: stopping") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("does not say that it stops: %v", err)
		}
	}
	for deadline := time.Now().Add(limit); w.deliver(t, "evt_2").StatusCode != http.StatusServiceUnavailable; {
		if time.Now().After(deadline) {
			t.Fatal("deliveries are taken after the context has ended")
		}
	}
	refused("while it drains")
	select {
	case err := <-w.ended:
		t.Fatalf("Run ended before the handler: %v", err)
	default:
	}
	close(release)
	w.halt(t)
	refused("after Run")
	if n := w.count(t, `SELECT count(*) FROM effect WHERE state = 'done'`); n < 1 {
		t.Error("the effect under way was not recorded")
	}
	if n := w.count(t, `SELECT count(*) FROM ledger WHERE event = 'evt_1'`); n != 1 {
		t.Errorf("%d rows of evt_1, want 1", n)
	}
}

func TestTheSchemaIsMigratedIfAsked(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.EmptySchema(t)
	cfg := invoices(url, schema)
	_, err := oncegate.Open(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "oncegate migrate up") || !strings.Contains(err.Error(), "Config.Migrate") {
		t.Fatalf("Open without tables: %v; does not say what to do", err)
	}
	cfg.Migrate = true
	for range 2 {
		og, err := oncegate.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := og.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Two Inboxes on one database share what is to be done.
func TestTwoInboxesOnOneDatabase(t *testing.T) {
	t.Parallel()
	first := open(t, nil)
	second := openAs(t, first.cfg)
	for _, w := range []*world{first, second} {
		attach(t, w.og, "ledger", book)
		w.run(t)
	}
	const events = 20
	for i := range events {
		id := fmt.Sprintf("evt_%d", i)
		first.acknowledged(t, id)
		second.acknowledged(t, id)
	}
	first.await(t, events, `SELECT count(*) FROM effect WHERE state = 'done'`)
	if n := first.count(t, `SELECT count(*) FROM ledger`); n != events {
		t.Errorf("%d rows for %d events that both took", n, events)
	}
	first.halt(t)
	second.acknowledged(t, "evt_last")
	second.await(t, events+1, `SELECT count(*) FROM ledger`)
	second.halt(t)
}
