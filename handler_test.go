package oncegate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
)

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

// The writes of a handler that fails are rolled back, and the next attempt writes them again.
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

// A handler outside the database is always called with the same key. An attempt with an unknown
// outcome is the last one, unless the other side deduplicates.
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
			// A program that ignores the error of the call gets it from Run.
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
