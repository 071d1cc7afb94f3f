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
	// analyzeEvery is how often the planner's picture of river_job is looked at while there
	// are wake-ups.
	analyzeEvery = time.Second

	// growthFactor is how many times as many rows as the planner was told of make that
	// picture a wrong one. It counts as told of minRows at least: with four times as many
	// every plan is fast.
	growthFactor, minRows = 4, 50

	// analyzeTimeout bounds a look and what follows from it.
	analyzeTimeout = 30 * time.Second
)

// analyzer has river_job analysed when it holds far more jobs than the planner was told
// of. In a quiet minute River deletes what has ended, and autovacuum tells the planner of
// many pages with next to nothing in them. It then takes reading every job for the way to
// find one: among 50,000 a fetch of 100 takes 0.7 s, and that lasts until autovacuum comes
// by again, a minute by its defaults. No setting of the session keeps it from that, since
// the two ways cost the same by what it knows.
type analyzer struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	worked atomic.Bool // since the last look
}

// after notes a wake-up.
func (a *analyzer) after() { a.worked.Store(true) }

// run looks every so often until ctx ends.
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

// How many rows there are is what the sessions told, within about a second. A table of no
// pages that the planner knows of is no concern: it is taken for as full as its size allows.
const hasOutgrown = `
SELECT relpages > 0 AND pg_stat_get_live_tuples(oid) > $1 * greatest(reltuples, $2)
FROM pg_class
WHERE oid = 'river_job'::regclass`

// Whoever analyses it already does the same work.
const analyzeJobs = `ANALYZE (SKIP_LOCKED) river_job`

// look has river_job analysed if it has outgrown what the planner was told.
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
