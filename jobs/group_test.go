package jobs_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

// Effects that share a transaction are carried out exactly once each, on two
// nodes, also beside ones that fail, that are slow, and that lose their jobs in
// the middle.
func TestEffectsInGroups(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 300
	b.exec(`CREATE TABLE applied (event text)`)
	b.exec(`CREATE FUNCTION apply_event(event jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO applied VALUES (event->>'event');
		IF event->>'id' = 'poison' THEN RAISE EXCEPTION 'canary'; END IF;
		IF event->>'id' = 'slow' THEN PERFORM pg_sleep(0.7); END IF;
		IF event->>'id' = 'locked' THEN RAISE EXCEPTION SQLSTATE '55P03'; END IF;
	END $$`)
	ids := b.admit(within, n)
	for i, name := range []string{"poison", "slow", "locked"} {
		b.exec(`UPDATE inbox_event SET event_id = $2 WHERE id = $1`, ids[10+50*i], name)
	}
	kind, err := sql.New(sql.Config{Call: "apply_event"})
	if err != nil {
		t.Fatal(err)
	}
	for node := range 2 {
		b.client(jobs.Config{
			Store: b.store(fmt.Sprint("node-", node)), MaxWorkers: 100, Logger: slog.New(slog.DiscardHandler),
			Transactionals: map[string]effect.Transactional{within: kind},
			// A wake-up that is run twice may be lost between the two.
			SweepEvery: 100 * time.Millisecond,
		})
	}
	b.eventually("some done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) > 20 })
	// As the rescuer and the scheduler would do with jobs that run. River locks the jobs that it
	// completes in no particular order, so the statement must not wait for one of them.
	b.exec(`UPDATE river_job SET state = 'available', scheduled_at = now()
		WHERE id IN (SELECT j.id FROM river_job j WHERE j.state = 'running' FOR UPDATE SKIP LOCKED)`)
	b.eventually("all at their end", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE state IN ('done', 'dead')`) == n
	})
	if got := b.count(`SELECT count(*) FROM applied`); got != n-2 {
		t.Errorf("%d applied, want %d", got, n-2)
	}
	if got := b.count(`SELECT count(DISTINCT event) FROM applied`); got != n-2 {
		t.Errorf("%d different ones applied, want %d", got, n-2)
	}
	for i, want := range map[int]reasons.Reason{10: reasons.SQL, 110: reasons.Exhausted} {
		if r := b.row(ids[i]); r.State != string(inbox.EffectDead) || r.Reason != string(want) {
			t.Errorf("%+v, want dead, %s", r, want)
		}
	}
	if got := b.count(`SELECT count(*) FROM effect WHERE state = 'done' AND attempts <> 1`); got != 0 {
		t.Errorf("%d are done with other than one attempt", got)
	}
}
