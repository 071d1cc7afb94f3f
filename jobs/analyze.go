package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// analyzeEvery is how often the analyzer checks the planner's statistics of river_job while
	// there are wake-ups.
	analyzeEvery = time.Second

	// growthFactor is how many times more rows than the planner's statistics show make those
	// statistics wrong. Statistics of fewer than minRows rows count as minRows, because with four
	// times as many every plan is still fast.
	growthFactor, minRows = 4, 50

	// analyzeTimeout bounds one check and the ANALYZE that may follow it.
	analyzeTimeout = 30 * time.Second
)

// analyzer runs ANALYZE on river_job when the table has far more jobs than the planner's statistics
// show. In a quiet minute River deletes the jobs that have ended, and autovacuum then records many
// pages with almost no rows. The planner then reads every job to find one: among 50,000 jobs a
// fetch of 100 takes 0.7 s, until autovacuum returns, by default a minute later. No session setting
// prevents this, because by those statistics the two plans cost the same.
type analyzer struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	worked atomic.Bool // since the last check
}

// after records that there was a wake-up.
func (a *analyzer) after() { a.worked.Store(true) }

// run checks the statistics every analyzeEvery until ctx ends.
func (a *analyzer) run(ctx context.Context) {
	ticker := time.NewTicker(analyzeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !a.worked.Swap(false) {
			continue // an idle process asks for nothing
		}
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "jobs are found slowly until autovacuum has analysed river_job", "error", err.Error())
		}
	}
}

// The number of rows is what the sessions reported, up to about a second ago. A table whose
// statistics show no pages needs no ANALYZE, because the planner then assumes that it is as full as
// its size allows.
const hasOutgrown = `
SELECT relpages > 0 AND pg_stat_get_live_tuples(oid) > $1 * greatest(reltuples, $2)
FROM pg_class
WHERE oid = 'river_job'::regclass`

// SKIP_LOCKED, because a session that is already analysing the table does the same work.
const analyzeJobs = `ANALYZE (SKIP_LOCKED) river_job`

// look runs ANALYZE on river_job if the table has outgrown the planner's statistics.
func (a *analyzer) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, analyzeTimeout)
	defer cancel()
	var wrong bool
	if err := a.pool.QueryRow(ctx, hasOutgrown, float64(growthFactor), float64(minRows)).Scan(&wrong); err != nil {
		return fmt.Errorf("looking at river_job: %w", err)
	}
	if !wrong {
		return nil
	}
	if _, err := a.pool.Exec(ctx, analyzeJobs); err != nil {
		return fmt.Errorf("analysing river_job: %w", err)
	}
	return nil
}
