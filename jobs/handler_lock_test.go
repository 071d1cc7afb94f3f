package jobs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// The backend of a connection that died lets go of its rows a moment after it has
// said so. Here somebody else takes the row in that moment: the attempt counts all
// the same.
func TestAFailureIsRecordedThoughItsRowIsLocked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(within, 1)[0]
	var calls atomic.Int64
	held := make(chan error, 1)
	queueUp := func() {
		held <- pgx.BeginFunc(context.WithoutCancel(t.Context()), b.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(context.WithoutCancel(t.Context()), `SELECT FROM effect WHERE id = $1 FOR UPDATE`, id)
			if err != nil {
				return err
			}
			_, err = tx.Exec(context.WithoutCancel(t.Context()), `SELECT pg_sleep(0.3)`) // longer than a claim takes
			return err
		})
	}
	b.client(jobs.Config{Transactionals: map[string]effect.Transactional{
		within: effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, _ effect.Event) error {
			if calls.Add(1) > 1 {
				return nil
			}
			go queueUp()
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for waiting := 0; waiting == 0; <-tick.C { // until it is blocked by this transaction
				err := b.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() <> pid
					AND wait_event_type = 'Lock' AND query LIKE '%FROM effect WHERE id = $1 FOR UPDATE%' AND $1 = ANY (pg_blocking_pids(pid))`,
					tx.Conn().PgConn().PID()).Scan(&waiting)
				if err != nil {
					return err
				}
			}
			_, _ = tx.Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid())`) // may be answered before it is obeyed
			_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
			return err
		}),
	}})
	b.eventuallyState(id, inbox.EffectDone)
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	if got := b.outcomes(id); len(got) != 2 || got[0] != "retry" || got[1] != "done" {
		t.Errorf("attempts %v, want retry and done", got)
	}
}
