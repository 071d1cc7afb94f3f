package jobs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/jobs"
)

// Prune runs without being asked, one pass a job, and a stop does not wait for it.
func TestPruneIsScheduled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := prune.RegisterClasses(t.Context(), b.pool, []prune.ClassRow{{Name: "default", Horizons: prune.Horizons{
		Body: time.Hour, Tombstone: time.Hour, Effects: time.Hour, Refusals: time.Hour, Audit: time.Hour,
	}}}); err != nil {
		t.Fatal(err)
	}
	b.exec(`INSERT INTO audit (id, actor, action, object) SELECT (lpad(to_hex((extract(epoch FROM now() - interval '1 day') * 1000)::bigint), 12, '0')
		|| '70008' || lpad(to_hex(n), 15, '0'))::uuid, 'a', 'b', 'c' FROM generate_series(1, 10) n`)
	pruner, err := prune.New(prune.Config{Pool: b.pool, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var passes, removed atomic.Int64
	c := b.client(jobs.Config{Prune: pruner, PruneEvery: 200 * time.Millisecond, Pruned: func(_ context.Context, report prune.Report) {
		if report.Obtained { // two that come at once are one pass
			passes.Add(1)
		}
		removed.Add(report.Rows["audit"])
	}})
	b.within(60*time.Second, "two passes that remove all", func() bool { return passes.Load() >= 2 && removed.Load() >= 10 })
	if removed.Load() != 10 {
		t.Errorf("%d rows went, want 10", removed.Load())
	}
	b.stop(c)
	if n := b.count(`SELECT count(*) FROM river_job WHERE kind = 'prune' AND attempt > 1`); n > 0 {
		t.Errorf("%d passes were tried again", n)
	}
}
