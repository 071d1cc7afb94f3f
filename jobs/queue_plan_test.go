package jobs_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
)

// River's own statements look jobs up by their ids and in the order of its index,
// whether the planner was told of its table or not: with a plan that reads the table, each
// fetch and each batch of ended jobs took as long as all jobs of the last minute.
func TestRiverReadsOnlyItsJobs(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string][]string{
		"never analysed":       {endedJobs},
		"analysed while empty": {"VACUUM ANALYZE river_job", endedJobs},
		"analysed":             {endedJobs, "VACUUM ANALYZE river_job"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for _, sql := range prepare {
				b.exec(sql)
			}
			b.readFew()
		})
	}
}

// Of a table that the planner was told has many pages and hardly a row, it reads all, jobs
// by jobs, whatever the settings: while there are wake-ups it is told anew.
func TestRiverReadsOnlyItsJobsAfterAQuietMinute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec("ALTER TABLE river_job SET (autovacuum_enabled = off)") // or it might come by
	b.exec(endedJobs)
	b.exec("DELETE FROM river_job WHERE id < (SELECT max(id) FROM river_job)")
	b.tell(b.pool) // or a slow session takes what is deleted here off what is counted below
	b.exec("VACUUM ANALYZE river_job")
	b.exec(endedJobs)
	b.tell(b.pool) // an idle session may take 10 s, and by then there are no wake-ups
	if told := b.toldJobs(); told > 1 {
		t.Fatalf("the planner was told of %d rows", told)
	}
	ids := b.admit(repeatable, 20)
	c := b.client(jobs.Config{LeaderElectionDisabled: true, MaxWorkers: 20})
	b.eventually("the planner to be told anew", func() bool { return b.toldJobs() > manyJobs/2 })
	b.ended(c, ids)
	b.readFew()
}

// It is analysed when it has outgrown what the planner was told, and only then.
func TestRiversTableIsAnalysedWhenItHasOutgrown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		told, rows int // when it was last analysed, and since
		want       bool
	}{
		"few rows":         {told: 1, rows: 200, want: false},
		"more":             {told: 1, rows: 250, want: true},
		"as it was told":   {told: 1000, rows: 1000, want: false},
		"four times that":  {told: 1000, rows: 4000, want: false},
		"more than that":   {told: 1000, rows: 4100, want: true},
		"of pages unknown": {told: 0, rows: 4100, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.exec("ALTER TABLE river_job SET (autovacuum_enabled = off)") // or it might come by
			total := 0
			more := func(n int) {
				total += n
				b.exec(`INSERT INTO river_job (kind, args, state, finalized_at, max_attempts, queue, priority)
					SELECT 'effect', '{}', 'completed', now(), 1, 'default', 1 FROM generate_series(1, $1::int)`, n)
				b.tell(b.pool)
				if told := b.count(`SELECT pg_stat_get_live_tuples('river_job'::regclass)`); told != total {
					t.Fatalf("%d rows were told, wanted %d", told, total)
				}
			}
			more(c.told)
			if c.told > 0 {
				b.exec("VACUUM ANALYZE river_job")
			}
			more(c.rows - c.told)
			const analysed = `SELECT analyze_count FROM pg_stat_user_tables WHERE relid = 'river_job'::regclass`
			before := b.count(analysed)
			for range 2 { // for good
				if err := jobs.LookAtJobs(t.Context(), b.river); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.count(analysed) - before; got != map[bool]int{true: 1}[c.want] {
				t.Errorf("analysed %d times, wanted %t", got, c.want)
			}
		})
	}
}

// manyJobs is how many endedJobs makes.
const manyJobs = 50_000

const endedJobs = `
INSERT INTO river_job (kind, args, state, finalized_at, max_attempts, queue, priority)
SELECT 'effect', '{}', 'completed', now(), 1, 'default', 1
FROM generate_series(1, 50000)`

// readFew has 200 effects carried out, and fails if about as many rows of river_job as
// there are were read for that, by scans and through indexes.
func (b *bundle) readFew() {
	b.tb.Helper()
	const n = 200
	before := b.jobsRead()
	ids := b.admit(repeatable, n)
	b.ended(b.client(jobs.Config{LeaderElectionDisabled: true, MaxWorkers: 20}), ids)
	if read := b.jobsRead() - before; read < n || read > manyJobs {
		b.tb.Errorf("%d rows were read for %d jobs", read, n)
	}
}

// ended stops a client when it has carried out all effects, and has its sessions tell what
// they read. That the jobs have ended is written down before it stops, and not looked for
// here: that would read all of them.
func (b *bundle) ended(c *jobs.Client, effects []inbox.ID) {
	b.tb.Helper()
	for _, id := range effects {
		b.eventuallyState(id, inbox.EffectDone)
	}
	b.stop(c)
	b.tell(b.river)
}

// tell has the sessions of an idle pool tell what they counted, as they do by themselves
// once a second, or after 10 s if they are idle.
func (b *bundle) tell(pool *pgxpool.Pool) {
	b.tb.Helper()
	for _, session := range pool.AcquireAllIdle(b.tb.Context()) {
		_, err := session.Exec(b.tb.Context(), "SELECT pg_stat_force_next_flush()")
		session.Release()
		if err != nil {
			b.tb.Fatal(err)
		}
	}
}

func (b *bundle) jobsRead() int {
	b.tb.Helper()
	return b.count(`SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relid = 'river_job'::regclass`)
}

// toldJobs is how many rows the planner believes river_job to have had.
func (b *bundle) toldJobs() int {
	b.tb.Helper()
	return b.count(`SELECT reltuples::int FROM pg_class WHERE oid = 'river_job'::regclass`)
}
