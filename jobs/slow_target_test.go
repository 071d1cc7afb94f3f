package jobs_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A target inside the database that takes its time does not stall its backlog. With 600
// effects of a second each, those that waited for their turn until River's deadline
// were failures to River: they sat in its backoff, for minutes, while nothing ran.
func TestASlowTargetDoesNotStallItsBacklog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// 30 s for one at a time. River's deadline is after 23 s, and a machine that stalls for some seconds ends no attempt.
	const n, takes, timeout = 60, "0.5", 8 * time.Second
	b.admit(within, n)
	var happened atomic.Int64
	routes := b.changed(func(r *jobs.Route) { r.Timeout = timeout })
	b.client(jobs.Config{
		Routes: routes, Transactions: 1, SweepEvery: time.Second,
		Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, _ effect.Event) error {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(`+takes+`)`)
			if err == nil {
				happened.Add(1)
			}
			return err
		})},
	})
	failed := 0
	b.within(3*time.Minute, "the backlog to be worked off", func() bool {
		failed = max(failed, b.count(`SELECT count(*) FROM river_job WHERE state = 'retryable' OR cardinality(errors) > 0`))
		return failed > 0 || b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == n
	})
	if failed > 0 {
		t.Fatalf("%d wake-ups failed and wait in River's backoff; %d of %d effects have happened", failed, happened.Load(), n)
	}
	if got := b.count(`SELECT count(*) FROM effect_attempt WHERE outcome <> 'done' OR attempt > 1`); got != 0 {
		t.Errorf("%d attempts were spent on waiting", got)
	}
}

// The wait for a connection is bounded: who waits in vain gives its worker back and
// comes again, and none of its attempts is spent. It waited as long as River let it.
func TestWaitingForAConnectionIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lease = 8 * time.Second
	const n = 30 // more than there are connections
	b.admit(within, n)
	putOff := make(chan struct{})
	var once sync.Once
	b.client(jobs.Config{
		Transactions: 2 * n,
		Observe: func(r jobs.Report) {
			if r.Reason == reasons.Saturated && r.State == inbox.EffectPending && r.Attempt == 0 {
				once.Do(func() { close(putOff) })
			}
		},
		Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(ctx context.Context, _ pgx.Tx, _ effect.Event) error {
			select {
			case <-putOff:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})},
	})
	began := time.Now()
	select {
	case <-putOff:
	case <-time.After(time.Minute):
		t.Fatal("nobody was put off: everybody waits for a connection")
	}
	t.Logf("put off after %s", time.Since(began))
	b.within(time.Minute, "all to be done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == n })
}

// Where no connection is free, nothing is begun, and whoever asks is told why.
func TestBeginWaitsOnlySoLong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range b.work.Config().MaxConns {
		tx, err := b.work.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	}
	if _, err := b.store("node-1").Begin(t.Context(), 10*time.Millisecond); !errors.Is(err, inbox.ErrNoConnection) {
		t.Errorf("got %v, want ErrNoConnection", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.store("node-1").Begin(gone, time.Minute); errors.Is(err, inbox.ErrNoConnection) || err == nil {
		t.Errorf("a caller that has gone got %v", err)
	}
}
