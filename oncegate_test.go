package oncegate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
)

// A process that only receives needs no handlers, and one that only works accepts no deliveries.
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

// Before Run and after the end of its context, deliveries are refused with 503, while running
// effects are finished and recorded.
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

// Two Inboxes on one database share the work.
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
