package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// The museum: ways to do it that look right, each of which the checks must fail,
// beside ours, which must pass.

// A check judges one property; nil is that it holds.

func fenceHolds(b *bundle, settle func(ctx context.Context, claim *inbox.Claim) error) error {
	id := b.admit(repeatable, 1)[0]
	store := b.store("node-1")
	stale := b.claim(store, id)
	b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s'`)
	b.sweep(b.sweeper(nil))
	b.exec(`UPDATE effect SET next_at = now()`)
	fresh := b.claim(store, id)
	if err := settle(b.tb.Context(), stale); err != nil {
		return err
	}
	var token inbox.ID
	if err := b.pool.QueryRow(b.tb.Context(), `SELECT lease_token FROM effect`).Scan(&token); err != nil {
		return err
	}
	if token != fresh.Token {
		return errors.New("a stale lease ended another's attempt")
	}
	return nil
}

func TestMuseumOfSettlements(t *testing.T) {
	t.Parallel()
	exhibits := map[string]struct {
		wrong  bool
		settle func(b *bundle) func(context.Context, *inbox.Claim) error
	}{
		"ours": {false, func(b *bundle) func(context.Context, *inbox.Claim) error {
			return func(ctx context.Context, claim *inbox.Claim) error {
				_, err := b.store("node-1").Settle(ctx, done(claim))
				return err
			}
		}},
		"without a look at the lease": {true, func(b *bundle) func(context.Context, *inbox.Claim) error {
			return func(ctx context.Context, claim *inbox.Claim) error {
				_, err := b.pool.Exec(ctx, `UPDATE effect SET state = 'done', lease_token = NULL, lease_until = NULL, next_at = NULL,
					finished_at = now() WHERE id = $1 AND state = 'claimed'`, claim.Effect)
				return err
			}
		}},
		"by the number of the job": {true, func(b *bundle) func(context.Context, *inbox.Claim) error {
			return func(ctx context.Context, claim *inbox.Claim) error {
				_, err := b.pool.Exec(ctx, `UPDATE effect SET state = 'done', lease_token = NULL, lease_until = NULL, next_at = NULL,
					finished_at = now() WHERE id = $1 AND job_id = (SELECT job_id FROM effect WHERE id = $1)`, claim.Effect)
				return err
			}
		}},
	}
	for name, e := range exhibits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			judge(t, e.wrong, func() error { return fenceHolds(b, e.settle(b)) })
		})
	}
}

// handled is told when a handler has acted, and lets it go on.
type handled struct {
	acted chan struct{}
	goOn  chan struct{}
	runs  atomic.Int64
}

func (h *handled) act(ctx context.Context, tx pgx.Tx, event string) error {
	if _, err := tx.Exec(ctx, `INSERT INTO applied VALUES ($1)`, event); err != nil {
		return err
	}
	if h.runs.Add(1) == 1 {
		close(h.acted)
		<-h.goOn
	}
	return nil
}

// appliedOnce runs an effect whose job the rescuer takes for stuck while it runs.
func appliedOnce(b *bundle, start func(h *handled) (stop func())) error {
	b.exec(`CREATE TABLE applied (event text)`)
	h := &handled{acted: make(chan struct{}), goOn: make(chan struct{})}
	b.admit(within, 1)
	stop := start(h)
	<-h.acted
	b.exec(`UPDATE river_job SET state = 'retryable', scheduled_at = now() + interval '1 h'`) // as the rescuer does
	close(h.goOn)
	b.eventually("the first run to be committed", func() bool { return b.count(`SELECT count(*) FROM applied`) > 0 })
	b.exec(`UPDATE river_job SET state = 'available', scheduled_at = now()`) // as the scheduler does
	b.eventually("the second run to end", func() bool { return b.count(`SELECT count(*) FROM river_job WHERE state <> 'completed'`) == 0 })
	stop() // the queue may write late that the first run was completed, while the second one still works
	if n := b.count(`SELECT count(*) FROM applied`); n != 1 {
		return fmt.Errorf("applied %d times", n)
	}
	return nil
}

// trusting believes JobCompleteTx, whose answer is no error also for a job that
// is no longer running.
type trusting struct {
	river.WorkerDefaults[effectArgs]
	b *bundle
	h *handled
}

func (w *trusting) Work(ctx context.Context, job *river.Job[effectArgs]) error {
	return pgx.BeginFunc(ctx, w.b.pool, func(tx pgx.Tx) error {
		if err := w.h.act(ctx, tx, job.Args.Effect); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

func TestMuseumOfTransactions(t *testing.T) {
	t.Parallel()
	exhibits := map[string]struct {
		wrong bool
		start func(b *bundle, h *handled) (stop func())
	}{
		"ours": {false, func(b *bundle, h *handled) func() {
			c := b.client(jobs.Config{Transactionals: map[string]effect.Transactional{
				within: effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, e effect.Event) error { return h.act(ctx, tx, e.ID) }),
			}})
			return func() { b.stop(c) }
		}},
		"JobCompleteTx trusted": {true, func(b *bundle, h *handled) func() {
			workers := river.NewWorkers()
			river.AddWorker(workers, &trusting{b: b, h: h})
			client, err := river.NewClient(riverpgxv5.New(b.river), &river.Config{
				Queues: map[string]river.QueueConfig{"default": {MaxWorkers: 4}}, Workers: workers, FetchCooldown: 5 * time.Millisecond,
				FetchPollInterval: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				b.tb.Fatal(err)
			}
			if err := client.Start(context.WithoutCancel(b.tb.Context())); err != nil {
				b.tb.Fatal(err)
			}
			stop := func() { _ = client.Stop(context.WithoutCancel(b.tb.Context())) }
			b.tb.Cleanup(stop)
			return stop
		}},
	}
	for name, e := range exhibits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			judge(t, e.wrong, func() error { return appliedOnce(b, func(h *handled) func() { return e.start(b, h) }) })
		})
	}
}

func sweepsOnlyTheLost(b *bundle, sweep func(ctx context.Context) error) error {
	b.admit(repeatable, 50)
	lost := b.admit(repeatable, 5)
	b.exec(`DELETE FROM river_job WHERE id IN (SELECT job_id FROM effect WHERE id = ANY ($1))`, lost)
	b.exec(`UPDATE river_job SET state = 'running', attempted_at = now() WHERE id % 2 = 0`)
	if err := sweep(b.tb.Context()); err != nil {
		return err
	}
	if n := b.count(`SELECT count(*) FROM river_job`); n != 55 {
		return fmt.Errorf("%d jobs, want 55", n)
	}
	if n := b.count(`SELECT count(*) FROM effect e JOIN river_job j ON j.id = e.job_id`); n != 55 {
		return fmt.Errorf("%d effects have a job, want 55", n)
	}
	return nil
}

func TestMuseumOfSweepers(t *testing.T) {
	t.Parallel()
	rewake := func(which string) func(b *bundle) func(context.Context) error {
		return func(b *bundle) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := b.pool.Exec(ctx, `
					WITH due AS (SELECT id, nextval('river_job_id_seq') AS job FROM effect e WHERE next_at <= now() AND `+which+`),
					woken AS (UPDATE effect e SET job_id = due.job FROM due WHERE e.id = due.id)
					INSERT INTO river_job (id, args, kind, max_attempts) SELECT job, jsonb_build_object('effect', id), 'effect', 25 FROM due`)
				return err
			}
		}
	}
	exhibits := map[string]struct {
		wrong bool
		sweep func(b *bundle) func(context.Context) error
	}{
		"ours": {false, func(b *bundle) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := b.sweeper(nil).Sweep(ctx)
				return err
			}
		}},
		"that ignores liveness":       {true, rewake(`true`)},
		"that takes running for dead": {true, rewake(`NOT EXISTS (SELECT FROM river_job j WHERE j.id = e.job_id AND j.state = 'available')`)},
		"that looks at the front":     {true, rewake(`e.id IN (SELECT id FROM effect ORDER BY next_at, id LIMIT 10) AND NOT EXISTS (SELECT FROM river_job j WHERE j.id = e.job_id)`)},
	}
	for name, e := range exhibits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			judge(t, e.wrong, func() error { return sweepsOnlyTheLost(b, e.sweep(b)) })
		})
	}
}

func judge(t *testing.T, wrong bool, check func() error) {
	t.Helper()
	err := check()
	if wrong && err == nil {
		t.Error("the check does not see that it is wrong")
	}
	if !wrong && err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Log(err)
	}
}
