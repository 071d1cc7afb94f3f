package jobs_test

import (
	"context"
	"flag"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// The sizes of the two scale tests; scripts/sweep-scale runs them in full.
var (
	liveJobs = flag.Int("live", 20_000, "live jobs that the sweeper must leave alone")
	lostJobs = flag.Int("lost", 2_000, "effects whose jobs are truncated")
)

func (b *bundle) sweeper(change func(*jobs.SweeperConfig)) *jobs.Sweeper {
	b.tb.Helper()
	cfg := jobs.SweeperConfig{Pool: b.river, Store: b.store("sweeper"), Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	s, err := jobs.NewSweeper(cfg)
	if err != nil {
		b.tb.Fatal(err)
	}
	return s
}

func (b *bundle) sweep(s *jobs.Sweeper) jobs.SweepReport {
	b.tb.Helper()
	report, err := s.Sweep(b.tb.Context())
	if err != nil {
		b.tb.Fatal(err)
	}
	return report
}

func (b *bundle) admitMany(route string, n int) {
	b.tb.Helper()
	for ; n > 0; n -= 5000 {
		b.admit(route, min(n, 5000))
	}
}

func TestSweepLeavesLiveJobsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admitMany(repeatable, *liveJobs)
	b.exec(`ANALYZE effect`)
	s := b.sweeper(nil)
	began := time.Now()
	var total jobs.SweepReport
	for sweeps := 1; !total.Complete; sweeps++ {
		report := b.sweep(s)
		total.Examined += report.Examined
		total.Woken += report.Woken
		total.Complete = report.Complete
		if sweeps > 1000 {
			t.Fatal("the sweep does not come to an end")
		}
	}
	t.Logf("%d effects with live jobs walked in %s", total.Examined, time.Since(began))
	if total.Examined != *liveJobs || total.Woken != 0 {
		t.Errorf("%+v, want %d examined and none woken", total, *liveJobs)
	}
	if n := b.count(`SELECT count(*) FROM river_job`); n != *liveJobs {
		t.Errorf("%d jobs, want %d", n, *liveJobs)
	}
}

func TestEffectsRunAgainAfterATruncate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admitMany(repeatable, *lostJobs)
	b.exec(`TRUNCATE river_job`)
	s := &sink{idempotent: true}
	began := time.Now()
	b.client(jobs.Config{Senders: senders(s), SweepEvery: 10 * time.Second, MaxWorkers: 500, Logger: slog.New(slog.DiscardHandler)})
	b.within(time.Minute, "all run again", func() bool { return int(s.calls.Load()) >= *lostJobs })
	took := time.Since(began)
	b.eventually("all done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == *lostJobs })
	t.Logf("%d effects run again after %s", *lostJobs, took)
	if n := int(s.calls.Load()); n != *lostJobs {
		t.Errorf("%d calls for %d effects", n, *lostJobs)
	}
}

func TestSweepKnowsWhichJobsAreLive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		job        string // what becomes of the job
		woken      bool
		unfinished bool
	}{
		"available":                   {`UPDATE river_job SET scheduled_at = now() - interval '1 h'`, false, false},
		"available, for much later":   {`UPDATE river_job SET scheduled_at = now() + interval '1 h'`, true, false},
		"running, from an hour ahead": {`UPDATE river_job SET state = 'running', attempted_at = now() + interval '1 h'`, true, true},
		"gone":                        {`DELETE FROM river_job`, true, false},
		"completed":                   {`UPDATE river_job SET state = 'completed', finalized_at = now()`, true, false},
		"discarded":                   {`UPDATE river_job SET state = 'discarded', finalized_at = now()`, true, false},
		"cancelled":                   {`UPDATE river_job SET state = 'cancelled', finalized_at = now()`, true, false},
		"scheduled, just overdue":     {`UPDATE river_job SET state = 'scheduled', scheduled_at = now() - interval '20 s'`, false, false},
		"scheduled, long overdue":     {`UPDATE river_job SET state = 'scheduled', scheduled_at = now() - interval '31 s'`, true, false},
		"scheduled, for soon":         {`UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '20 s'`, false, false},
		"scheduled, for much later":   {`UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '1 h'`, true, false},
		"retryable, for later":        {`UPDATE river_job SET state = 'retryable', scheduled_at = now() + interval '1 h'`, true, false},
		"retryable, just overdue":     {`UPDATE river_job SET state = 'retryable', scheduled_at = now() - interval '20 s'`, true, false},
		"retryable, long overdue":     {`UPDATE river_job SET state = 'retryable', scheduled_at = now() - interval '31 s'`, true, false},
		"running, within the lease":   {`UPDATE river_job SET state = 'running', attempted_at = now() - interval '25 s'`, false, false},
		"running, beyond the lease":   {`UPDATE river_job SET state = 'running', attempted_at = now() - interval '31 s'`, true, true},
		"the effect is not due":       {`UPDATE effect SET next_at = now() + interval '1 min'; DELETE FROM river_job`, false, false},
		"held by an order taken off":  {`UPDATE effect SET state = 'held', next_at = NULL; DELETE FROM river_job`, true, false},
		"the effect is held, no more": {`UPDATE effect SET state = 'held'; DELETE FROM river_job`, true, false},
		"the effect is done":          {`UPDATE effect SET state = 'done', finished_at = now(), next_at = NULL; DELETE FROM river_job`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(repeatable, 1)[0]
			before := b.row(id).JobID
			b.exec(c.job)
			b.sweep(b.sweeper(nil))
			r := b.row(id)
			if woken := r.JobID != before; woken != c.woken || r.Unfinished != c.unfinished {
				t.Errorf("woken %t, unfinished %t, want %t, %t", woken, r.Unfinished, c.woken, c.unfinished)
			}
			if c.woken && b.count(`SELECT count(*) FROM river_job WHERE id = $1 AND state = 'available'`, r.JobID) != 1 {
				t.Error("the effect's new job is not there")
			}
		})
	}
}

func TestLiveJobsInFrontDoNotHideLostOnes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admit(repeatable, 25)
	lost := b.admit(repeatable, 3)
	b.exec(`DELETE FROM river_job WHERE id IN (SELECT job_id FROM effect WHERE id = ANY ($1))`, lost)
	now := time.Now()
	// The budget ends after each page: the next sweep goes on from there.
	s := b.sweeper(func(cfg *jobs.SweeperConfig) {
		cfg.Page = 10
		cfg.Budget = time.Second
		cfg.Now = func() time.Time { now = now.Add(600 * time.Millisecond); return now }
	})
	woken := 0
	for range 3 {
		woken += b.sweep(s).Woken
	}
	if woken != len(lost) {
		t.Errorf("%d woken in three sweeps of ten, want %d", woken, len(lost))
	}
}

func TestExpiredLeases(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		route    string
		started  bool
		attempts int
		state    inbox.EffectState
		reason   reasons.Reason
	}{
		"repeatable":                   {repeatable, false, 1, inbox.EffectRetry, reasons.LeaseExpired},
		"once, nothing sent":           {once, false, 1, inbox.EffectRetry, reasons.LeaseExpired},
		"once, perhaps sent":           {once, true, 1, inbox.EffectIndeterminate, reasons.LeaseExpired},
		"repeatable, its last attempt": {repeatable, false, 5, inbox.EffectDead, reasons.Exhausted},
		"once, sent, its last attempt": {once, true, 5, inbox.EffectIndeterminate, reasons.LeaseExpired},
		"inside, its claim committed":  {within, false, 1, inbox.EffectRetry, reasons.LeaseExpired},
		"inside, and its last attempt": {within, false, 5, inbox.EffectDead, reasons.Exhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(c.route, 1)[0]
			before := b.row(id).JobID
			// The claim of a process that was killed; its job looks alive.
			b.exec(`UPDATE effect SET state = 'claimed', lease_token = gen_random_uuid(), attempts = $2, lease_until = now() - interval '1 s',
				next_at = now() - interval '1 s', send_started_at = CASE WHEN $3 THEN now() - interval '5 s' END WHERE id = $1`, id, c.attempts, c.started)
			report := b.sweep(b.sweeper(nil))
			r := b.row(id)
			if report.Expired != 1 || r.State != string(c.state) || r.Reason != string(c.reason) {
				t.Errorf("%+v, %+v, want %s, %s", report, r, c.state, c.reason)
			}
			if got := b.outcomes(id); !slices.Equal(got, []string{"lost"}) {
				t.Errorf("attempts %v, want one that was lost", got)
			}
			if again := r.JobID != before; again != c.state.Waiting() {
				t.Errorf("new job %t, want %t", again, c.state.Waiting())
			}
			if c.state.Waiting() && !r.Unfinished {
				t.Error("the next run is not told to be careful")
			}
		})
	}
}

func TestALeaseThatRunsIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	store := b.store("node-1")
	claim, _, err := store.Claim(t.Context(), id, b.row(id).JobID)
	if err != nil || claim == nil {
		t.Fatalf("claim %v, %v", claim, err)
	}
	b.exec(`TRUNCATE river_job`)
	if report := b.sweep(b.sweeper(nil)); report.Examined != 0 {
		t.Errorf("%+v, want nothing overdue", report)
	}
}

// A handler that kills its process is dead after its attempts: the second run
// commits its claim first, and each lease that ends uses one up.
func TestAHandlerThatKillsTheProcessIsDeadInTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lease = 2 * time.Second // time enough to begin the handler on a machine that is busy
	b.retry.Attempts = 3
	id := b.admit(within, 1)[0]
	var runs atomic.Int64
	killed := make(chan struct{}) // a killed process never comes back
	handler := effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, _ effect.Event) error {
		runs.Add(1)
		_ = tx.Conn().PgConn().Conn().Close() // what the server sees of it
		<-ctx.Done()
		<-killed
		return nil
	})
	s := b.sweeper(func(cfg *jobs.SweeperConfig) { cfg.MinRunning = 200 * time.Millisecond })
	c, err := jobs.New(b.config(jobs.Config{StopTimeout: time.Millisecond, Transactionals: map[string]effect.Transactional{within: handler}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(killed); b.stop(c) })
	b.eventually("dead", func() bool { b.sweep(s); return b.row(id).State == "dead" })
	if n := runs.Load(); n != 4 {
		t.Errorf("%d runs, want 4: one that left no trace and three attempts", n)
	}
	if got := b.outcomes(id); !slices.Equal(got, []string{"lost", "lost", "lost"}) {
		t.Errorf("attempts %v, want three that were lost", got)
	}
}
