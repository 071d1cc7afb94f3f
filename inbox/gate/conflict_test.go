package gate_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/gate/conflict"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/internal/session"
)

// undecided are [gate.Conflicts] that fail for one event.
type undecided struct {
	fail    string
	settled []string
}

var errUndecided = errors.New("the payload cannot be read")

func (u *undecided) Settle(_ context.Context, p *conflict.Payload, out *inbox.ItemReceipt) error {
	u.settled = append(u.settled, p.EventID)
	if p.EventID == u.fail {
		return errUndecided
	}
	out.Outcome = inbox.Conflict
	return nil
}

func (*undecided) Displaced() uint64 { return 0 }

// A delivery for which one conflict cannot be decided is not acknowledged: the gate asks nothing about the events after it, and
// counts no outcome for them, because the sender delivers all of them again.
func TestAnUndecidedConflictIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolGate, 6)
	source := inboxtest.Source(t, pool, "shop")
	conflicts, outcomes := &undecided{fail: "b"}, map[inbox.Outcome]int{}
	g, err := gate.New(gate.Config{
		Pool: pool, Enqueuer: storetest.Queue(), Clock: inboxtest.Clock(t, pool), Conflicts: conflicts,
		Counted: func(_ *inbox.Admission, r *inbox.Receipt, _ time.Time) {
			for i := range r.Items {
				outcomes[r.Items[i].Outcome]++
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, id := range []string{"a", "b", "c"} {
		if _, err := g.Accept(t.Context(), inboxtest.AdmissionOf(source, id, `{"other":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	clear(outcomes)
	receipt, err := g.Accept(t.Context(), inboxtest.Batch(source, "a", "b", "c", "d"))
	if !errors.Is(err, gate.ErrUnavailable) || !errors.Is(err, errUndecided) || len(receipt.Items) != 0 {
		t.Errorf("got %v, %v, want an error that is unavailable and says why", receipt, err)
	}
	if got := len(conflicts.settled); got != 2 {
		t.Errorf("the gate asked about %v, want a and b", conflicts.settled)
	}
	if want := (map[inbox.Outcome]int{inbox.Conflict: 1, "": 2, inbox.Recorded: 1}); !maps.Equal(outcomes, want) {
		t.Errorf("counted %v, want %v", outcomes, want)
	}
}
