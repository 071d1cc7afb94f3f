package jobs_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
)

// A dead effect that blocks its sequence is replayed, and those behind it go on in
// their order.
func TestAReplayUnblocksItsSequence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1", OnDead: sequence.DeadBlock}}
	ids := b.sequenced(repeatable, "17", "1", "2", "3")
	store := b.store("node-1")
	b.end(store, b.try(store, ids[0]), inbox.EffectDead)
	for _, id := range ids[1:] {
		if claim := b.try(store, id); claim != nil {
			t.Fatalf("%s goes on behind a dead one", id)
		}
	}
	r := b.replays(replay.Config{Store: store})
	p := plan(t, r, everything(), replay.Options{})
	if p.Summary.ToDo != 1 {
		t.Fatalf("%+v", p.Summary)
	}
	start(t, r, p)
	b.client(jobs.Config{Store: store, Replays: r})
	for _, id := range ids {
		b.eventuallyState(id, inbox.EffectDone)
	}
	if n := b.count(`SELECT count(*) FROM (SELECT e.sequence_number - lag(e.sequence_number) OVER (ORDER BY t.started_at, t.finished_at) AS d
		FROM effect_attempt t JOIN effect e ON e.id = t.effect_id WHERE t.outcome = 'done') x WHERE d < 0`); n != 0 {
		t.Error("they did not happen in their order")
	}
	if applied := b.text(`SELECT applied::text FROM stream`); applied != "3" {
		t.Errorf("applied %s", applied)
	}
}

// What has been passed meanwhile is replayed by the policy for it: the claim
// decides, not the replay.
func TestAReplayDoesNotGoBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Latest}}
	ids := b.sequenced(repeatable, "17", "1")
	store := b.store("node-1")
	b.end(store, b.try(store, ids[0]), inbox.EffectDead)
	b.end(store, b.try(store, b.sequenced(repeatable, "17", "2")[0]), inbox.EffectDone)
	r := b.replays(replay.Config{Store: store})
	p := plan(t, r, everything(), replay.Options{})
	start(t, r, p)
	target := &sink{idempotent: true}
	b.client(jobs.Config{Store: store, Replays: r, Senders: senders(target)})
	b.eventuallyState(ids[0], inbox.EffectSuperseded)
	if target.got(ids[0]) != 0 || b.text(`SELECT applied::text FROM stream`) != "2" {
		t.Errorf("sent %d times", target.got(ids[0]))
	}
}

// An effect that blocks its sequence is discarded, and those behind it go on.
func TestDiscardingUnblocksASequence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1", OnDead: sequence.DeadBlock}}
	ids := b.sequenced(repeatable, "17", "1", "2")
	store := b.store("node-1")
	b.end(store, b.try(store, ids[0]), inbox.EffectDead)
	if claim := b.try(store, ids[1]); claim != nil {
		t.Fatal("it goes on behind a dead one")
	}
	// As the command line does: without the routes.
	if _, err := decide.New(b.storeOn(b.pool)).Discard(t.Context(), decide.Discard{IDs: ids[:1], Actor: actor, Reason: why}); err != nil {
		t.Fatal(err)
	}
	b.client(jobs.Config{Store: store})
	b.eventuallyState(ids[1], inbox.EffectDone)
	b.eventuallyState(ids[0], inbox.EffectSkipped)
}

// An ordered route gets no effect of an event that it is new to: made now, it would
// have no place in its sequence. The plan says so; what was planned before the route
// was ordered is left out by the run.
func TestAReplayMakesNoEffectsWithoutAPlace(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{true, false} {
		b := setup(t)
		b.admit(repeatable, 1)
		judge := judgeFunc(func(*replay.RecordedEvent) []replay.Judgement {
			return []replay.Judgement{{RouteID: b.routes[once], Verdict: replay.VerdictNewRoute, Ordered: ordered}}
		})
		b.order = map[string]sequence.Policy{once: {Mode: sequence.Contiguous, Start: "1"}}
		r := b.replays(replay.Config{Judge: judge})
		p := plan(t, r, replay.Scope{DeadFilter: read.DeadFilter{Source: "shop", Route: once}}, replay.Options{NewRoutes: true})
		if !ordered {
			start(t, r, p)
			run(t, r, p.ID)
		}
		items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{}))
		if err != nil || len(items) != 1 || items[0].Outcome != replay.ItemLeftOut {
			t.Fatalf("%+v, %v", items, err)
		}
		if ordered && items[0].LeftOut != replay.LeftOutOrdered || !ordered && items[0].Detail == "" {
			t.Errorf("%+v does not say why", items[0])
		}
		if n := b.count(`SELECT count(*) FROM effect`); n != 1 {
			t.Errorf("%d effects", n)
		}
	}
}
