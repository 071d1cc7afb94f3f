package jobs_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

func TestRearm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		effect string // what becomes of it
		want   int
	}{
		"dead, retriable":       {`UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', next_at = NULL, attempts = 5`, 1},
		"dead, not retriable":   {`UPDATE effect SET state = 'dead', reason = 'status_410', next_at = NULL`, 0},
		"dead, reason not ours": {`UPDATE effect SET state = 'dead', reason = 'whatever', next_at = NULL`, 0},
		"rearmed three times":   {`UPDATE effect SET state = 'dead', reason = 'status_4xx', next_at = NULL, rearms = 3`, 0},
		"rearmed a moment ago":  {`UPDATE effect SET state = 'dead', reason = 'status_4xx', next_at = NULL, rearms = 1, rearmed_at = now() - interval '50 s'`, 0},
		"rearmed a minute ago":  {`UPDATE effect SET state = 'dead', reason = 'status_4xx', next_at = NULL, rearms = 1, rearmed_at = now() - interval '61 s'`, 1},
		"indeterminate":         {`UPDATE effect SET state = 'indeterminate', reason = 'timeout', next_at = NULL`, 0},
		"skipped":               {`UPDATE effect SET state = 'skipped', reason = 'status_4xx', next_at = NULL, finished_at = now()`, 0},
		"superseded":            {`UPDATE effect SET state = 'superseded', next_at = NULL, finished_at = now()`, 0},
		"duplicate":             {`UPDATE effect SET state = 'duplicate', duplicate_of = id, next_at = NULL, finished_at = now()`, 0},
		"done":                  {`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now()`, 0},
		"pending":               {`UPDATE effect SET state = 'pending'`, 0},
		"of a route not known":  {`UPDATE effect SET state = 'dead', reason = 'status_4xx', next_at = NULL, route_id = 4711`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(repeatable, 1)[0]
			b.exec(c.effect)
			before := b.row(id)
			got, err := b.store("node-1").Rearm(t.Context(), id)
			if err != nil || got != c.want {
				t.Fatalf("%d rearmed, %v, want %d", got, err, c.want)
			}
			after := b.row(id)
			if c.want == 0 {
				if after.State != before.State || after.Version != before.Version || after.JobID != before.JobID {
					t.Errorf("%+v became %+v", before, after)
				}
				return
			}
			if after.State != "pending" || after.Version != before.Version+1 || after.Attempts != 0 || after.Rearms != before.Rearms+1 || after.JobID == before.JobID {
				t.Errorf("%+v became %+v, want fresh attempts under a new version and job", before, after)
			}
			if again, err := b.store("node-1").Rearm(t.Context(), id); err != nil || again != 0 {
				t.Errorf("a second time at once: %d, %v", again, err)
			}
		})
	}
}

func TestARearmJobRunsTheEffectAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	b.exec(`UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', next_at = NULL, attempts = 5`)
	var ids []int64
	var reserve, wake pgx.Batch
	b.queue.ReserveTx(&reserve, 1, &ids)
	if err := b.pool.SendBatch(t.Context(), &reserve).Close(); err != nil {
		t.Fatal(err)
	}
	b.queue.EnqueueTx(&wake, []inbox.Wake{{JobID: ids[0], Kind: inbox.WakeRearm, ID: id}})
	if err := b.pool.SendBatch(t.Context(), &wake).Close(); err != nil {
		t.Fatal(err)
	}
	reports := make(chan jobs.Report, 1)
	b.client(jobs.Config{Senders: map[string]effect.Sender{repeatable: &sink{idempotent: true}}, Observe: func(r jobs.Report) { reports <- r }})
	b.eventuallyState(id, inbox.EffectDone)
	if r := <-reports; r.Attempt != 1 || r.State != inbox.EffectDone || r.Elapsed <= 0 || r.Elapsed > time.Minute {
		t.Errorf("%+v", r)
	}
	if n := b.count(`SELECT count(*) FROM effect_attempt WHERE version = 2 AND attempt = 1 AND trigger = 'rearm'`); n != 1 {
		t.Error("the attempt does not say that it was rearmed")
	}
}
