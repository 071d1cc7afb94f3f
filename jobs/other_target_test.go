package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// leading has the stores that are made from now on send the effects of repeatable to the
// target, as one configuration says, and gives the routes of a client of that.
func (b *bundle) leading(target string) map[int32]jobs.Route {
	b.tb.Helper()
	var err error
	b.elsewhere = target
	if b.routing, err = inbox.RegisterRouting(b.tb.Context(), b.pool, map[int32]string{b.routes[repeatable]: target}); err != nil {
		b.tb.Fatal(err)
	}
	return b.changed(func(r *jobs.Route) {
		if r.Name == repeatable {
			r.Target = target
		}
	})
}

// An effect that may have happened at one target was sent to another one, under a key that
// this one could not know, as soon as the configuration or another process had that one.
func TestAnEffectIsNeverSentToTwoTargets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost := &sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result {
		return effect.Result{Outcome: effect.Unknown, Reason: reasons.Timeout}
	}}
	b.retry.Base, b.retry.Max = 200, 200
	routes := b.leading("first")
	before := b.client(jobs.Config{Routes: routes, Senders: map[string]effect.Sender{"first": lost}})
	id := b.admit(repeatable, 1)[0]
	b.eventually("an attempt whose outcome is unknown", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE unknown_since IS NOT NULL`) == 1
	})
	b.stop(before)
	b.exec(`UPDATE effect SET next_at = now(), attempts = 1, state = 'retry', reason = NULL, lease_token = NULL, lease_until = NULL`)
	b.exec(`UPDATE river_job SET state = 'available', scheduled_at = now(), finalized_at = NULL`)

	other := &sink{idempotent: true}
	store := func() jobs.Config {
		routes := b.leading("second")
		return jobs.Config{Store: b.store("node-2"), Routes: routes, Senders: map[string]effect.Sender{"second": other}}
	}
	b.client(store())
	sweeper := b.sweeper(nil)
	b.eventually("it to be left to a process of the other configuration", func() bool {
		b.sweep(sweeper)
		return b.row(id).Reason == string(reasons.Elsewhere)
	})
	if row := b.row(id); row.State != "retry" || other.calls.Load() != 0 {
		t.Errorf("%+v, and the other target was asked %d times, want it to wait", row, other.calls.Load())
	}
	b.exec(`UPDATE effect SET unknown_since = now() - interval '3 min', next_at = now()`)
	b.exec(`UPDATE river_job SET state = 'available', scheduled_at = now() WHERE state = 'scheduled'`)
	b.eventuallyState(id, inbox.EffectIndeterminate)
	if row := b.row(id); row.Reason != string(reasons.Elsewhere) || other.calls.Load() != 0 {
		t.Errorf("%+v, and the other target was asked %d times, want it to wait for a person", row, other.calls.Load())
	}
	found, err := b.store("node-2").Indeterminate(t.Context(), b.routes[repeatable], inbox.ID{}, 10)
	if err != nil || len(found) != 1 || found[0].Elsewhere != "first" {
		t.Errorf("a probe would ask the other target: %+v, %v", found, err)
	}
	// A person has looked at the first target, and decides.
	if err := decide.New(b.store("cli")).Resolve(t.Context(), decide.Resolve{Effect: id, As: decide.ResolveResend, Actor: "ann", Reason: "not there"}); err != nil {
		t.Fatal(err)
	}
	b.eventuallyState(id, inbox.EffectDone)
	if got := other.calls.Load(); got != 1 {
		t.Errorf("the other target was asked %d times after the decision, want once", got)
	}
}

// A lease token of an earlier version is drawn at random, and may look like one that
// carries a routing. Nobody registered that one: where the attempt went is not known.
func TestATokenOfAnEarlierVersionNamesNoTarget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	routes := b.leading("first")
	id := b.admit(repeatable, 1)[0]
	b.exec(`UPDATE effect SET unknown_since = now(), unknown_lease = '6f67ffff-ffff-4000-8000-000000000000' WHERE id = $1`, id)
	b.client(jobs.Config{Routes: routes, Senders: map[string]effect.Sender{"first": &sink{idempotent: true}}})
	b.eventuallyState(id, inbox.EffectDone)
}

// Two processes whose configurations differ work side by side, as in a deploy: each effect
// is sent by those alone that have the target which the first attempt went to.
func TestTwoConfigurationsShareNoEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 12
	// The first attempt of each effect, wherever it is made, leaves its outcome unknown.
	targets := map[string]*sink{}
	// They look for jobs at different paces, so that neither is the first every time.
	for name, pace := range map[string]time.Duration{"first": 70 * time.Millisecond, "second": 110 * time.Millisecond} {
		s := &sink{idempotent: true}
		s.answer = func(_ context.Context, call *effect.Call) effect.Result {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.ledger[call.Key] == 1 {
				return effect.Result{Outcome: effect.Unknown, Reason: reasons.Timeout}
			}
			return effect.Result{Outcome: effect.Done, Code: "200"}
		}
		targets[name] = s
		routes := b.leading(name)
		b.client(jobs.Config{Store: b.store("node-" + name), Routes: routes, Senders: map[string]effect.Sender{name: s}, MaxWorkers: 2, FetchPollInterval: pace, Targets: map[string]jobs.Target{name: {Failures: -1}}})
	}
	ids := b.admit(repeatable, n)
	soon := `UPDATE effect SET next_at = now() WHERE state = 'retry'`
	b.eventually("all to be done", func() bool {
		b.exec(soon)
		b.exec(`UPDATE river_job SET scheduled_at = now(), state = 'available' WHERE state = 'scheduled'`)
		return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == n
	})
	for _, id := range ids {
		first, second := targets["first"].got(id), targets["second"].got(id)
		if first > 0 && second > 0 || first+second != 2 {
			t.Errorf("effect %s was sent %d times to the first target and %d times to the second, want twice to one of them", id, first, second)
		}
	}
}
