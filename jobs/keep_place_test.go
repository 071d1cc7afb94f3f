package jobs_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// An effect of a stream that its target turned away runs before a backlog that was received before the end of its pause. One without
// a stream keeps the priority of all.
func TestAnEffectOfAStreamKeepsItsPlaceWhenItIsTurnedAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1"}}
	b.sequenced(repeatable, "a", "1")
	b.sequenced(repeatable, "b", "1")
	b.admit(once, 2)
	busy := func(ctx context.Context, _ *effect.Call) effect.Result {
		<-ctx.Done()
		return effect.Result{Outcome: effect.Retry}
	}
	c := b.client(jobs.Config{
		Senders: map[string]effect.Sender{repeatable: &sink{idempotent: true, answer: busy}, once: &sink{answer: busy}},
		Targets: map[string]jobs.Target{repeatable: {Concurrency: 1}, once: {Concurrency: 1}},
	})
	const turnedAway = `FROM effect e JOIN river_job j ON j.id = e.job_id WHERE e.state = 'pending' AND e.reason = 'target_saturated'`
	b.eventually("one of each is turned away", func() bool { return b.count(`SELECT count(*) `+turnedAway) == 2 })
	b.eventually("the one of a stream is preferred", func() bool {
		return b.count(`SELECT count(*) `+turnedAway+` AND j.priority = 1 AND e.sequence_key_hash IS NOT NULL`) == 1
	})
	b.stop(c)
	if n := b.count(`SELECT count(*) ` + turnedAway + ` AND j.priority = 2`); n != 1 {
		t.Errorf("%d jobs without a stream have the usual priority, want 1", n)
	}
	waiting := b.text(`SELECT e.idempotency_key ` + turnedAway + ` AND e.sequence_key_hash IS NOT NULL`)

	b.exec(`DELETE FROM river_job WHERE id <> (SELECT j.id ` + turnedAway + ` AND e.sequence_key_hash IS NOT NULL)`)
	backlog := b.admit(once, 20)
	b.exec(`UPDATE river_job SET scheduled_at = now() - interval '1 min' WHERE priority = 2`)
	b.eventually("the pause has ended", func() bool {
		return b.count(`SELECT count(*) FROM river_job WHERE priority = 1 AND scheduled_at < now() AND state IN ('available', 'scheduled')`) == 1
	})
	var mu sync.Mutex
	var ran []string
	note := func(_ context.Context, call *effect.Call) effect.Result {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, call.Key)
		return effect.Result{Outcome: effect.Done}
	}
	b.client(jobs.Config{
		MaxWorkers: 1, Senders: map[string]effect.Sender{repeatable: &sink{idempotent: true, answer: note}, once: &sink{answer: note}},
	})
	b.eventually("all have run", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ran) == len(backlog)+1
	})
	if at := slices.Index(ran, waiting); at != 0 {
		t.Errorf("the effect that was turned away ran as number %d of %d, want it first", at+1, len(ran))
	}
}
