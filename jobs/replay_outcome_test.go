package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/replay"
)

// A step writes nothing into the items that were planned: one that is being erased or
// sealed anew is not waited for, and has its outcome.
func TestAnItemThatChangesDuringAStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, r, p := b.started(3, replay.Config{})
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // it was committed, or the test failed
	if _, err := tx.Exec(t.Context(), `UPDATE replay_item SET diff = NULL WHERE position = 2`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if step, err := r.Step(ctx, p.ID); err != nil || step.Items != len(ids) {
		t.Fatalf("beside who changes an item: %+v, %v", step, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(`SELECT count(*) FROM replay_outcome o JOIN replay_item i USING (replay_id, position) JOIN effect e ON e.id = i.effect_id
		WHERE o.outcome = 'replayed' AND e.state = 'pending' AND e.version = 2`); n != len(ids) {
		t.Errorf("%d of %d effects were set going and say so", n, len(ids))
	}
	items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{}))
	if err != nil || len(items) != len(ids) {
		t.Fatalf("%d items, %v", len(items), err)
	}
	for _, it := range items {
		if it.Outcome != replay.ItemReplayed || it.ActedAt == nil {
			t.Errorf("item %d came to %q at %v", it.Position, it.Outcome, it.ActedAt)
		}
	}
}
