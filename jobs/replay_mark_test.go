package jobs_test

import (
	"errors"
	"testing"

	"github.com/oncegate/oncegate/inbox"
)

// An item that is erased or sealed anew while a step wants to mark it is marked, or the
// step is made again: what was set going is never without its outcome.
func TestAnItemThatChangesDuringAStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, r, p := b.started(3, inbox.ReplaysConfig{})
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE replay_item SET diff = NULL WHERE position = 2`); err != nil {
		t.Fatal(err)
	}
	stepped := make(chan error, 1)
	go func() {
		_, err := r.Step(t.Context(), p.ID)
		stepped <- err
	}()
	b.eventually("the step to wait for the item", func() bool {
		return b.count(`SELECT count(*) FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))`, tx.Conn().PgConn().PID()) > 0
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stepped; errors.Is(err, inbox.ErrState) {
		if n := b.count(`SELECT count(*) FROM effect WHERE state = 'dead'`); n != len(ids) {
			t.Errorf("%d of %d effects are as they were before a step that failed", n, len(ids))
		}
		run(t, r, p.ID)
	} else if err != nil {
		t.Fatal(err)
	}
	if n := b.count(`SELECT count(*) FROM replay_item i JOIN effect e ON e.id = i.effect_id
		WHERE i.outcome = 'replayed' AND e.state = 'pending' AND e.version = 2`); n != len(ids) {
		t.Errorf("%d of %d effects were set going and say so", n, len(ids))
	}
}
