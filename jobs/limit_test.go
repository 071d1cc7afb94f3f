package jobs_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A target that hangs has three quarters of the workers and no more: another one's
// effects, behind a backlog of it, are carried out as if it were not there.
func TestOneBadTargetNeverDelaysAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admit(once, 100)
	good := b.admit(repeatable, 20)
	end := make(chan struct{}) // no attempt at the bad target ends before the others are done
	bad := &sink{answer: func(context.Context, *effect.Call) effect.Result {
		<-end
		return effect.Result{Outcome: effect.Unknown, Reason: reasons.Timeout}
	}}
	s := &sink{idempotent: true}
	b.client(jobs.Config{MaxWorkers: 9, Senders: map[string]effect.Sender{once: bad, repeatable: s}})
	t.Cleanup(func() { close(end) })
	b.eventually("the other target's effects", func() bool { return int(s.calls.Load()) == len(good) })
	if n := bad.calls.Load(); n == 0 || n > 7 {
		t.Errorf("%d attempts at the bad target, want at most 7 of 9 workers", n)
	}
}

// An open breaker parks the effects, spends none of their attempts, and lets them
// go on when the target is well again.
func TestAnOpenBreakerParksWithoutAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.retry = inbox.RetryPolicy{Attempts: 4, Base: time.Millisecond, Max: 10 * time.Millisecond}
	b.admit(repeatable, 30)
	var well atomic.Bool
	s := &sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result {
		if well.Load() {
			return effect.Result{Outcome: effect.Done}
		}
		return effect.Result{Outcome: effect.Retry, Reason: reasons.Connect}
	}}
	b.client(jobs.Config{
		Senders: senders(s), MaxWorkers: 2,
		Targets: map[string]jobs.Target{repeatable: {Failures: 3, Open: time.Second}},
	})
	b.eventually("effects parked by the breaker", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE reason = 'target_open'`) > 20
	})
	if n := b.count(`SELECT count(*) FROM effect WHERE state = 'dead'`); n > 0 {
		t.Errorf("%d are dead", n)
	}
	well.Store(true)
	b.eventually("all done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == 30 })
	if n := int(s.calls.Load()); n > 30+8 {
		t.Errorf("%d calls for 30 effects: the breaker let too many try", n)
	}
}

func TestARateIsKeptAndUsed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 40
	b.admit(repeatable, n)
	var mu sync.Mutex
	var at []time.Time
	s := &sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		return effect.Result{Outcome: effect.Done}
	}}
	b.client(jobs.Config{Senders: senders(s), Targets: map[string]jobs.Target{repeatable: {Rate: 20}}})
	b.eventually("all done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == n })
	took := at[n-1].Sub(at[0])
	// Two more than the rate at the beginning; put off, but not for much longer than it asks.
	if took < 1700*time.Millisecond || took > 12*time.Second {
		t.Errorf("%d attempts at 20/s within %s", n, took)
	}
	if got := b.count(`SELECT count(*) FROM effect WHERE attempts <> 1`); got != 0 {
		t.Errorf("%d effects did not spend exactly one attempt", got)
	}
}

// A target that asks for peace gets it from all of its effects.
func TestRetryAfterHoldsUpTheTarget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admit(repeatable, 20)
	s := &sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result {
		return effect.Result{Outcome: effect.Retry, Reason: reasons.Status429, RetryAfter: time.Minute}
	}}
	b.client(jobs.Config{Senders: senders(s), MaxWorkers: 1})
	b.eventually("all put off", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE next_at > now() + interval '20 s'`) == 20
	})
	if n := s.calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}
