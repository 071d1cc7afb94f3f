package jobs_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

func done(claim *inbox.Claim) inbox.Settlement {
	return inbox.Settlement{
		Effect: claim.Effect, Token: claim.Token, State: inbox.EffectDone, Outcome: inbox.AttemptDone, Trigger: claim.Trigger,
		StartedAt: claim.StartedAt, RouteID: claim.RouteID,
	}
}

func (b *bundle) claim(store *inbox.Effects, id inbox.ID) *inbox.Claim {
	b.tb.Helper()
	claim, standing, err := store.Claim(b.tb.Context(), id, b.row(id).JobID)
	if err != nil || claim == nil {
		b.tb.Fatalf("claim %v, standing %+v, error %v", claim, standing, err)
	}
	return claim
}

// A process that was away for longer than its lease must not end what another
// has taken over.
func TestAStaleLeaseEndsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	store := b.store("node-1")
	stale := b.claim(store, id)
	b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s'`)
	b.sweep(b.sweeper(nil))
	b.exec(`UPDATE effect SET next_at = now()`)
	fresh := b.claim(store, id)
	if fresh.Attempt != 2 || fresh.Trigger != inbox.TriggerSweep {
		t.Errorf("%+v, want the second attempt, after a sweep", fresh)
	}

	if mine, err := store.StartSend(t.Context(), stale, inbox.SendStart{Rendered: []byte("late"), Began: true}); err != nil || mine {
		t.Errorf("a stale claim may send: %t, %v", mine, err)
	}
	// Both in one group: only the one that holds the lease is heard.
	var settled [2]inbox.Settled
	var all sync.WaitGroup
	dead := done(stale)
	dead.State, dead.Outcome, dead.Reason = inbox.EffectDead, inbox.AttemptDead, reasons.Other
	for i, s := range []inbox.Settlement{dead, done(fresh)} {
		all.Go(func() {
			var err error
			if settled[i], err = store.Settle(context.WithoutCancel(t.Context()), s); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if settled[0].Applied || !settled[1].Applied {
		t.Errorf("stale applied %t, fresh applied %t", settled[0].Applied, settled[1].Applied)
	}
	if r := b.row(id); r.State != "done" {
		t.Errorf("%+v, want done", r)
	}
	if again, err := store.Settle(t.Context(), done(fresh)); err != nil || again.Applied {
		t.Errorf("settled twice: %+v, %v", again, err)
	}
}

func TestOneOfManyClaims(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 20)
	stores := []*inbox.Effects{b.store("node-1"), b.store("node-2")}
	var mu sync.Mutex
	claims := map[inbox.ID]int{}
	var all sync.WaitGroup
	for _, id := range ids {
		for i := range 10 {
			all.Go(func() {
				claim, _, err := stores[i%2].Claim(context.WithoutCancel(t.Context()), id, 1)
				if err != nil {
					t.Error(err)
				}
				if claim != nil {
					mu.Lock()
					claims[id]++
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	for _, id := range ids {
		if claims[id] != 1 {
			t.Errorf("effect %s was claimed %d times", id, claims[id])
		}
	}
}

// River runs one job twice (its rescuer came too early): the second run ends at
// the claim, the first one's end counts.
func TestADoubleRunIsHarmless(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(once, 1)[0]
	started, free := make(chan struct{}), make(chan struct{})
	s := &sink{answer: func(context.Context, *effect.Call) effect.Result {
		close(started)
		<-free
		return effect.Result{Outcome: effect.Done}
	}}
	b.client(jobs.Config{Senders: senders(s)})
	<-started
	b.exec(`UPDATE river_job SET state = 'available', scheduled_at = now()`)
	b.eventually("the second run to end", func() bool {
		return b.count(`SELECT count(*) FROM river_job WHERE state = 'completed' AND attempt = 2`) == 1
	})
	close(free)
	b.eventuallyState(id, inbox.EffectDone)
	if n := s.calls.Load(); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

// A killed worker's claim is taken over after its lease, on another node.
func TestAnAbandonedClaimIsTakenOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lease = time.Second
	id, lost := b.admit(repeatable, 1)[0], b.admit(once, 1)[0]
	killed := b.store("killed")
	b.claim(killed, id)
	claim := b.claim(killed, lost)
	if mine, err := killed.StartSend(t.Context(), claim, inbox.SendStart{Began: true}); err != nil || !mine {
		t.Fatalf("starting: %t, %v", mine, err)
	}
	s, single := &sink{idempotent: true}, &sink{}
	b.client(jobs.Config{
		Senders: map[string]effect.Sender{repeatable: s, once: single}, SweepEvery: 100 * time.Millisecond,
	})
	b.eventuallyState(id, inbox.EffectDone)
	b.eventuallyState(lost, inbox.EffectIndeterminate)
	if n := single.calls.Load(); n != 0 {
		t.Errorf("what may have been sent was sent again, %d times", n)
	}
	if n := s.calls.Load(); n != 1 {
		t.Errorf("sent %d times, want once", n)
	}
}
