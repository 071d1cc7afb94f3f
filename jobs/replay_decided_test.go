package jobs_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
)

// Whoever decides after a plan was made, and why.
const decider, decided = "bob", "paid by hand"

// unsure lets every effect there is have an outcome that nobody knows.
func (b *bundle) unsure() {
	b.tb.Helper()
	b.exec(`DELETE FROM river_job`)
	b.exec(`UPDATE effect SET state = 'indeterminate', reason = 'lease_expired', next_at = NULL, send_started_at = now() - interval '1 hour', attempts = 1`)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// A plan never overrides a decision: what a person, or a probe, decided between the
// plan and its run stands, and the item says who decided what and why.
func TestAPlanNeverOverridesADecision(t *testing.T) {
	t.Parallel()
	ordered := map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1", OnDead: sequence.DeadBlock}}
	for name, c := range map[string]struct {
		order   map[string]sequence.Policy
		rest    func(b *bundle)
		options replay.Options
		decide  func(b *bundle, store *inbox.Effects, id inbox.ID)
		actor   string // who is named; the decider unless it says otherwise
		reason  string
	}{
		"discarded": {decide: func(b *bundle, store *inbox.Effects, id inbox.ID) {
			_, err := decide.New(store).Discard(b.tb.Context(), decide.Discard{IDs: []inbox.ID{id}, Actor: decider, Reason: decided})
			must(b.tb, err)
		}},
		"discarded, with a plan of what is discarded": {options: replay.Options{IncludeDiscarded: true}, decide: func(b *bundle, store *inbox.Effects, _ inbox.ID) {
			_, err := decide.New(store).Discard(b.tb.Context(), decide.Discard{Filter: read.DeadFilter{Source: "shop"}, Actor: decider, Reason: decided})
			must(b.tb, err)
		}},
		"resolved as done": {
			rest: (*bundle).unsure, options: replay.Options{IncludeIndeterminate: true},
			decide: func(b *bundle, store *inbox.Effects, id inbox.ID) {
				must(b.tb, decide.New(store).Resolve(b.tb.Context(), decide.Resolve{Effect: id, As: decide.ResolveDone, Actor: decider, Reason: decided}))
			},
		},
		"resolved as done, with a plan of what is done": {
			rest: (*bundle).unsure, options: replay.Options{IncludeIndeterminate: true, IncludeDone: true, NewKey: true},
			decide: func(b *bundle, store *inbox.Effects, _ inbox.ID) {
				found, err := read.NewLister(b.pool).Unknown(b.tb.Context(), read.UnknownFilter{}, 10)
				must(b.tb, err)
				_, err = decide.New(store).ResolveMany(b.tb.Context(), decide.ResolveMany{Effects: found, As: decide.ResolveDone, Actor: decider, Reason: decided})
				must(b.tb, err)
			},
		},
		"resolved to be sent again, and unknown again": {
			rest: (*bundle).unsure, options: replay.Options{IncludeIndeterminate: true},
			decide: func(b *bundle, store *inbox.Effects, id inbox.ID) {
				must(b.tb, decide.New(store).Resolve(b.tb.Context(), decide.Resolve{Effect: id, As: decide.ResolveResend, Actor: decider, Reason: decided}))
				b.unsure()
			},
		},
		"found done by a probe": {
			rest: (*bundle).unsure, options: replay.Options{IncludeIndeterminate: true}, actor: "probe", reason: "the target answered",
			decide: func(b *bundle, store *inbox.Effects, id inbox.ID) {
				must(b.tb, decide.New(store).Resolve(b.tb.Context(), decide.Resolve{Effect: id, As: decide.ResolveDone, Version: 1, Actor: "probe", Reason: "the target answered 200 for the key"}))
			},
		},
		"skipped in its stream": {order: ordered, decide: func(b *bundle, store *inbox.Effects, id inbox.ID) {
			b.decideStream(store, id, decide.StreamSkip)
		}},
		"passed over in its stream": {order: ordered, decide: func(b *bundle, store *inbox.Effects, id inbox.ID) {
			b.decideStream(store, id, decide.StreamUnblock)
		}},
		"erased": {decide: func(b *bundle, _ *inbox.Effects, id inbox.ID) {
			_, err := prune.EraseEvent(b.tb.Context(), b.pool, prune.Erase{Source: "shop", EventID: id.String(), Actor: decider, Reason: decided})
			must(b.tb, err)
		}},
		"another payload admitted": {decide: func(b *bundle, _ *inbox.Effects, id inbox.ID) {
			b.conflict(id)
			must(b.tb, b.admitConflictOf(id))
		}},
		"discarded, replayed, dead and discarded again": {options: replay.Options{IncludeDiscarded: true}, decide: func(b *bundle, store *inbox.Effects, id inbox.ID) {
			again := decide.Discard{IDs: []inbox.ID{id}, Actor: "carl", Reason: "not this one"}
			_, err := decide.New(store).Discard(b.tb.Context(), again)
			must(b.tb, err)
			r := b.replays(replay.Config{Store: store})
			p := plan(b.tb, r, replay.Scope{IDs: []inbox.ID{id}}, replay.Options{IncludeDiscarded: true})
			start(b.tb, r, p)
			run(b.tb, r, p.ID)
			b.exec(`UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', next_at = NULL WHERE id = $1`, id)
			again.Actor, again.Reason = decider, decided
			_, err = decide.New(store).Discard(b.tb.Context(), again)
			must(b.tb, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.order = c.order
			store := b.store("node-1")
			var id inbox.ID
			if c.order == nil {
				id = b.admit(repeatable, 1)[0]
				if c.rest == nil {
					c.rest = (*bundle).died
				}
				c.rest(b)
			} else {
				id = b.sequenced(repeatable, "17", "1", "2")[0]
				b.end(store, b.try(store, id), inbox.EffectDead)
			}
			r := b.replays(replay.Config{Store: store})
			p := plan(t, r, everything(), c.options)
			if p.Summary.ToDo != 1 {
				t.Fatalf("%+v", p.Summary)
			}
			c.decide(b, store, id)
			before := b.row(id)
			start(t, r, p)
			run(t, r, p.ID)
			if after := b.row(id); after.State != before.State || after.Version != before.Version {
				t.Errorf("what was decided upon, %+v, was sent all the same: %+v", before, after)
			}
			p, err := r.Status(t.Context(), p.ID)
			if err != nil || p.Summary.Outcomes[replay.ItemDecidedSince] != 1 || p.State != replay.Done {
				t.Errorf("%+v, %v", p, err)
			}
			items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{Outcome: replay.ItemDecidedSince}))
			if err != nil || len(items) != 1 {
				t.Fatalf("%+v, %v", items, err)
			}
			who, what := decider, decided
			if c.actor != "" {
				who, what = c.actor, c.reason
			}
			if !strings.Contains(items[0].Detail, " by "+who+" at 20") || !strings.Contains(items[0].Detail, what) {
				t.Errorf("the item says %q, want who, when, what and why", items[0].Detail)
			}
		})
	}
}

// decideStream decides about the stream that an effect blocks.
func (b *bundle) decideStream(store *inbox.Effects, blocker inbox.ID, as decide.StreamPass) {
	b.tb.Helper()
	stream, err := read.NewLister(b.pool).Stream(b.tb.Context(), b.text(`SELECT id::text FROM stream`))
	must(b.tb, err)
	if stream.BlockedBy == nil || *stream.BlockedBy != blocker {
		b.tb.Fatalf("%+v", stream)
	}
	must(b.tb, decide.New(store).PassStream(b.tb.Context(), decide.PassStream{Stream: stream.ID, As: as, Blocker: blocker, Actor: decider, Reason: decided}))
}

// What was discarded before the plan, and is included by name, is sent.
func TestAPlanIncludesWhatWasDecidedBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	b.died()
	store := b.store("node-1")
	_, err := decide.New(store).Discard(t.Context(), decide.Discard{IDs: []inbox.ID{id}, Actor: decider, Reason: decided})
	must(t, err)
	r := b.replays(replay.Config{Store: store})
	for _, c := range []struct {
		options replay.Options
		toDo    int
		state   inbox.EffectState
	}{
		{replay.Options{}, 0, inbox.EffectSkipped},
		{replay.Options{IncludeDone: true, NewKey: true}, 0, inbox.EffectSkipped},
		{replay.Options{IncludeDiscarded: true}, 1, inbox.EffectPending},
	} {
		p := plan(t, r, replay.Scope{IDs: []inbox.ID{id}}, c.options)
		start(t, r, p)
		run(t, r, p.ID)
		if row := b.row(id); p.Summary.ToDo != c.toDo || row.State != string(c.state) {
			t.Errorf("%+v: %+v, %+v", c.options, p.Summary, row)
		}
	}
}

// Of two plans of one effect one sends it; that it is dead once more, for the same
// reason, changes nothing for the other.
func TestTwoPlansSendAnEffectOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	b.died()
	r := b.replays(replay.Config{})
	first, second := plan(t, r, everything(), replay.Options{}), plan(t, r, everything(), replay.Options{})
	start(t, r, first)
	run(t, r, first.ID)
	b.exec(`UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', next_at = NULL, attempts = 2`)
	start(t, r, second)
	run(t, r, second.ID)
	p, err := r.Status(t.Context(), second.ID)
	if row := b.row(id); row.State != "dead" || row.Version != 2 || err != nil || p.Summary.Outcomes[replay.ItemChanged] != 1 {
		t.Errorf("%+v, %+v, %v", row, p, err)
	}
}

// A run that was begun before a person decided goes on after it, without what they
// decided about.
func TestARunGoesOnBesideADecision(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, r, p := b.started(4, replay.Config{Chunk: 1})
	slices.SortFunc(ids, func(a, b inbox.ID) int { return bytes.Compare(a[:], b[:]) }) // the order of its items
	if _, err := r.Step(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	_, err := decide.New(b.store("node-1")).Discard(t.Context(), decide.Discard{IDs: ids[2:3], Actor: decider, Reason: decided})
	must(t, err)
	start(t, r, p) // resumed
	run(t, r, p.ID)
	for i, id := range ids {
		want := "pending"
		if i == 2 {
			want = "skipped"
		}
		if row := b.row(id); row.State != want {
			t.Errorf("effect %d is %s, want %s", i, row.State, want)
		}
	}
}

// What a person ended by its event is not made anew by a plan of before.
func TestAPlanMakesNoEffectsOfWhatWasDecided(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		admission string
		decide    func(b *bundle, event inbox.ID)
	}{
		"discarded": {"unusable", func(b *bundle, event inbox.ID) {
			_, err := decide.New(b.store("node-1")).Discard(b.tb.Context(), decide.Discard{IDs: []inbox.ID{event}, Actor: decider, Reason: decided})
			must(b.tb, err)
		}},
		"erased": {"ok", func(b *bundle, event inbox.ID) {
			_, err := prune.EraseEvent(b.tb.Context(), b.pool, prune.Erase{Source: "shop", EventID: event.String(), Actor: decider, Reason: decided})
			must(b.tb, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			event := b.admit(repeatable, 1)[0]
			b.exec(`DELETE FROM effect`)
			b.exec(`DELETE FROM river_job`)
			b.exec(`UPDATE inbox_event SET admission = $1`, c.admission)
			r := b.replays(replay.Config{Judge: newRoute(b.routes[once])})
			scope, options := replay.Scope{IDs: []inbox.ID{event}}, replay.Options{NewRoutes: true}
			p := plan(t, r, scope, options)
			if p.Summary.ToDo != 1 {
				t.Fatalf("%+v", p.Summary)
			}
			c.decide(b, event)
			start(t, r, p)
			run(t, r, p.ID)
			if n := b.count(`SELECT count(*) FROM effect`); n != 0 {
				t.Errorf("%d effects were made of an event that is %s", n, name)
			}
			items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{Outcome: replay.ItemDecidedSince}))
			if err != nil || len(items) != 1 || !strings.Contains(items[0].Detail, " by "+decider+" at 20") || !strings.Contains(items[0].Detail, decided) {
				t.Errorf("%+v, %v", items, err)
			}
			if p := plan(t, r, scope, options); p.Summary.ToDo != 0 {
				t.Errorf("a plan of after it has %+v", p.Summary)
			}
			if c.admission == "ok" {
				return
			}
			options.IncludeDiscarded = true
			p = plan(t, r, scope, options)
			start(t, r, p)
			run(t, r, p.ID)
			if n := b.count(`SELECT count(*) FROM effect`); n != 1 {
				t.Errorf("%d effects of an event that was discarded before the plan and is included, want 1", n)
			}
		})
	}
}

// newRoute judges that a route takes every event today.
type newRoute int32

func (n newRoute) Judge(_ context.Context, r *replay.RecordedEvent) ([]replay.Judgement, error) {
	for _, e := range r.Effects {
		if e.RouteID == int32(n) {
			return nil, nil
		}
	}
	return []replay.Judgement{{RouteID: int32(n), Verdict: replay.VerdictNewRoute}}, nil
}

// An effect that was ended while its item waited for somebody else's lock is ended.
func TestADecisionUnderTheLockOfAnItem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	b.died()
	r := b.replays(replay.Config{})
	p := plan(t, r, everything(), replay.Options{})
	start(t, r, p)
	letGo := b.stranger(`SELECT FROM effect WHERE id = $1 FOR UPDATE`, id)
	if step, err := r.Step(t.Context(), p.ID); err != nil || step.Items != 0 {
		t.Fatalf("%+v, %v", step, err)
	}
	letGo()
	_, err := decide.New(b.store("node-1")).Discard(t.Context(), decide.Discard{IDs: []inbox.ID{id}, Actor: decider, Reason: decided})
	must(t, err)
	b.within(30*time.Second, "the replay to end", func() bool {
		step, err := r.Step(t.Context(), p.ID)
		return err == nil && step.State == replay.Done
	})
	b.client(jobs.Config{Replays: r})
	if row := b.row(id); row.State != "skipped" {
		t.Errorf("%+v", row)
	}
}
