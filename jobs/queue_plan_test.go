package jobs_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
)

// River's own statements look jobs up by their ids and in the order of its index,
// whether the planner was told of its table or not: with a plan that reads the table, each
// fetch and each batch of ended jobs took as long as all jobs of the last minute. (Of a
// table that it was told has many pages and no rows, the planner will read all of it; that
// lasts until autovacuum comes by.)
func TestRiverReadsOnlyItsJobs(t *testing.T) {
	t.Parallel()
	const ended = 50_000
	for name, prepare := range map[string][]string{
		"never analysed":       {endedJobs},
		"analysed while empty": {"VACUUM ANALYZE river_job", endedJobs},
		"analysed":             {endedJobs, "VACUUM ANALYZE river_job"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for _, sql := range prepare {
				var args []any
				if sql == endedJobs {
					args = append(args, ended)
				}
				b.exec(sql, args...)
			}
			ids := b.admit(repeatable, 200)
			before := b.jobsRead()
			c := b.client(jobs.Config{LeaderElectionDisabled: true, MaxWorkers: 20})
			for _, id := range ids {
				b.eventuallyState(id, inbox.EffectDone)
			}
			// That the jobs have ended is written down before it stops, and not looked for here:
			// that would read all of them.
			b.stop(c)
			// What a session counts it tells when it ends, if not before.
			b.river.Reset()
			b.eventually("the reads to be told", func() bool {
				return b.count(`SELECT n_tup_upd FROM pg_stat_user_tables WHERE relid = 'river_job'::regclass`) >= 2*len(ids)
			})
			if read := b.jobsRead() - before; read > ended {
				t.Errorf("%d rows were read for %d jobs", read, len(ids))
			}
		})
	}
}

const endedJobs = `
INSERT INTO river_job (kind, args, state, finalized_at, max_attempts, queue, priority)
SELECT 'effect', '{}', 'completed', now(), 1, 'default', 1
FROM generate_series(1, $1::int)`

// jobsRead counts the rows of river_job that were read, by scans and through indexes.
func (b *bundle) jobsRead() int {
	b.tb.Helper()
	return b.count(`SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relid = 'river_job'::regclass`)
}
