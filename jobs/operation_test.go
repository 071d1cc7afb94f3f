package jobs_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Whoever waits for an operation is told by the worker of the same process, as
// soon as its effect has settled: the poll of this test never comes.
func TestTheWorkerWakesWhoWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	operations, err := operation.New(operation.Config{Pool: b.pool, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := operations.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = operations.Stop(context.WithoutCancel(t.Context())) })
	for route, answer := range map[string]effect.Result{
		repeatable: {Outcome: effect.Done},
		once:       {Outcome: effect.Unknown, Reason: reasons.Timeout},
		within:     {Outcome: effect.Done},
	} {
		event := b.admit(route, 1)[0]
		told := make(chan bool, 1)
		go func() {
			_, ok, err := operations.Await(t.Context(), event, 10*time.Minute)
			told <- ok && err == nil
		}()
		inboxtest.Until(t, "somebody waits", func() bool { return operations.Waiting() == 1 })
		c := b.client(jobs.Config{
			Senders: senders(&sink{idempotent: route == repeatable, answer: func(context.Context, *effect.Call) effect.Result { return answer }}),
			Observe: func(r jobs.Report) { operations.Settled(r.Event) },
		})
		inboxtest.Until(t, "the signal is heard", func() bool { return len(told) > 0 })
		if !<-told {
			t.Errorf("%s: the signal was no result", route)
		}
		b.stop(c)
	}
}

// An attempt says why it was made: also one that a person asked for, although
// its target had enough at first.
func TestTriggers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(once, 1)[0]
	results := []effect.Result{
		{Outcome: effect.Retry, Reason: reasons.Connect},
		{Outcome: effect.Unknown, Reason: reasons.Timeout},
		{Outcome: effect.Retry, Reason: reasons.Connect},
		{Outcome: effect.Dead, Reason: reasons.Status4xx},
		{Outcome: effect.Done},
	}
	s := &sink{}
	s.answer = func(context.Context, *effect.Call) effect.Result { return results[int(s.calls.Load())-1] }
	c := b.client(jobs.Config{Senders: senders(s)})
	b.eventuallyState(id, inbox.EffectIndeterminate)
	b.stop(c)

	store := b.store("node-1")
	if err := decide.New(store).Resolve(t.Context(), decide.Resolve{Effect: id, As: decide.ResolveResend, Actor: "ann", Reason: "not there"}); err != nil {
		t.Fatal(err)
	}
	claim := b.claim(store, id)
	b.settle(store, inbox.Settlement{
		Effect: id, Token: claim.Token, State: inbox.EffectPending, Reason: reasons.Resent, Trigger: claim.Trigger, StartedAt: claim.StartedAt,
	})
	c = b.client(jobs.Config{Senders: senders(s)})
	b.eventuallyState(id, inbox.EffectDead)
	b.stop(c)
	if n, err := store.Rearm(t.Context(), id); n != 1 && err == nil {
		b.exec(`UPDATE effect SET rearmed_at = now() - interval '2 min'`)
		if n, err = store.Rearm(t.Context(), id); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	b.client(jobs.Config{Senders: senders(s)})
	b.eventuallyState(id, inbox.EffectDone)

	var got []string
	rows, err := b.pool.Query(t.Context(), `SELECT trigger FROM effect_attempt ORDER BY version, attempt`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var trigger string
		if err := rows.Scan(&trigger); err != nil {
			t.Fatal(err)
		}
		got = append(got, trigger)
	}
	if want := []string{"initial", "automatic", "manual", "automatic", "rearm"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
