package jobs_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

// shadowed admits effects as the gate does for a source in shadow mode.
func (b *bundle) shadowed(route string, n int) []inbox.ID {
	b.tb.Helper()
	return b.admitWith(route, n, inShadow)
}

func inShadow(batch *pgx.Batch, ids []inbox.ID) {
	batch.Queue(`UPDATE inbox_event SET shadow = true WHERE id = ANY ($1)`, ids)
	batch.Queue(`UPDATE effect SET shadow = true WHERE id = ANY ($1)`, ids)
}

// failing is a mapping that needs a member that no event has.
func failing(tb testing.TB) *expression.Mapping { return mapped(tb, `{"amount": body.missing.amount}`) }

// Whatever carries an effect out is not reached by one in shadow mode, and the effect ends as it would, up to the request. A live
// effect of the same route beside it is carried out, in a process that takes both.
func TestShadowReachesNothing(t *testing.T) {
	t.Parallel()
	const when, never = "", "body.paid == 2"
	for name, c := range map[string]struct {
		route   string
		order   sequence.Mode
		when    string
		change  func(testing.TB, *jobs.Route)
		sql     bool
		reason  reasons.Reason
		failure reasons.Reason
		live    inbox.EffectState
	}{
		"a target that deduplicates":       {route: repeatable, reason: reasons.Shadow, live: inbox.EffectDone},
		"a target that does not":           {route: once, reason: reasons.Shadow, live: inbox.EffectDone},
		"a handler in a transaction":       {route: within, reason: reasons.Shadow, live: inbox.EffectDone},
		"a statement in a group":           {route: within, sql: true, reason: reasons.Shadow, live: inbox.EffectDone},
		"a stream outside":                 {route: once, order: sequence.Contiguous, reason: reasons.Shadow, live: inbox.EffectDone},
		"a stream inside the database":     {route: within, order: sequence.Contiguous, reason: reasons.Shadow, live: inbox.EffectDone},
		"a condition that is false":        {route: repeatable, when: never, reason: reasons.Condition, live: inbox.EffectSkipped},
		"a statement without its number":   {route: within, sql: true, when: "body.missing == 1", reason: reasons.ShadowFailed, failure: reasons.Mapping, live: inbox.EffectDead},
		"a mapping that fails":             {route: repeatable, change: func(tb testing.TB, r *jobs.Route) { r.Map = failing(tb) }, reason: reasons.ShadowFailed, failure: reasons.Mapping, live: inbox.EffectDead},
		"a mapping that fails in a stream": {route: once, order: sequence.Contiguous, when: when, change: func(tb testing.TB, r *jobs.Route) { r.Map = failing(tb) }, reason: reasons.ShadowFailed, failure: reasons.Mapping, live: inbox.EffectDead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.exec(`CREATE TABLE applied (event text)`)
			b.exec(`CREATE FUNCTION apply_event(event jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO applied VALUES (event->>'event') $$`)
			if c.order != "" {
				b.order = map[string]sequence.Policy{c.route: {Mode: c.order, Start: "1"}}
			}
			var shadows, lives []inbox.ID
			if c.order == "" {
				shadows, lives = b.shadowed(c.route, 5), b.admit(c.route, 5)
			} else {
				ids := b.sequenced(c.route, "key", "1", "2", "3", "4", "5", "6")
				b.exec(`UPDATE effect SET shadow = true WHERE sequence_number <> 6`)
				shadows, lives = ids[:5], ids[5:]
			}
			target := &sink{idempotent: c.route == repeatable}
			var handled atomic.Int64
			var kind effect.Transactional = effect.HandlerFunc(func(context.Context, pgx.Tx, effect.Event) error { handled.Add(1); return nil })
			if c.sql {
				var err error
				if kind, err = sql.New(sql.Config{Call: "apply_event"}); err != nil {
					t.Fatal(err)
				}
			}
			cfg := jobs.Config{
				Routes: b.changed(func(r *jobs.Route) {
					if c.when != "" {
						r.When = compile(t, c.when, expression.Condition)
					}
					if c.change != nil {
						c.change(t, r)
					}
				}), Logger: slog.New(slog.DiscardHandler), Transactionals: map[string]effect.Transactional{within: kind},
			}
			if c.route != within {
				cfg.Senders = senders(target)
			}
			b.client(cfg)
			for _, id := range slices.Concat(shadows, lives) {
				b.eventually("the end of "+id.String(), func() bool {
					return inbox.EffectState(b.row(id).State).Settled() || b.row(id).State == string(inbox.EffectDead)
				})
			}
			for _, id := range shadows {
				if r := b.row(id); r.State != string(inbox.EffectSkipped) || r.Reason != string(c.reason) || r.Attempts != 1 {
					t.Errorf("a shadow effect is %+v, want it skipped with reason %s", r, c.reason)
				}
				if why := b.text(`SELECT reason FROM effect_attempt WHERE effect_id = $1`, id); c.failure != "" && why != string(c.failure) {
					t.Errorf("its attempt says %s, want %s", why, c.failure)
				}
			}
			for _, id := range lives {
				if r := b.row(id); r.State != string(c.live) {
					t.Errorf("a live effect is %+v, want %s", r, c.live)
				}
			}
			happened := int(target.calls.Load()+handled.Load()) + b.count(`SELECT count(*) FROM applied`)
			want := 0
			if c.live == inbox.EffectDone {
				want = len(lives)
			}
			if happened != want {
				t.Errorf("%d effects happened, want the %d live ones", happened, want)
			}
		})
	}
}

// A fetch is a request like any other. Without its answer nothing is known of the effect, and its attempt says so.
func TestShadowFetchesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := newThing(t, func(w http.ResponseWriter, _ int) { _, _ = w.Write([]byte(`{"amount":1}`)) })
	target := &sink{idempotent: true}
	shadow := b.shadowed(repeatable, 1)[0]
	b.client(jobs.Config{Routes: b.fetching(fetch(t, asked.URL, nil)), Senders: senders(target)})
	b.eventuallyState(shadow, inbox.EffectSkipped)
	if got := b.text(`SELECT e.reason || ': ' || t.excerpt FROM effect e JOIN effect_attempt t ON t.effect_id = e.id`); got != "shadow: fetch: a shadow effect fetches nothing, so that its condition and its request were not evaluated" {
		t.Errorf("it ended as %q", got)
	}
	if n := len(asked.requests()); n != 0 || target.calls.Load() != 0 {
		t.Errorf("%d fetches and %d sends", n, target.calls.Load())
	}
	live := b.admit(repeatable, 1)[0]
	b.eventuallyState(live, inbox.EffectDone)
	if n := len(asked.requests()); n != 1 {
		t.Errorf("a live effect made %d fetches", n)
	}
}

// A list in shadow mode stays one effect, and nobody gets a mail.
func TestShadowWritesNoList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := &post{}
	id := b.batch("spring", "a", "b", "c")
	b.exec(`UPDATE effect SET shadow = true`)
	b.client(jobs.Config{Routes: b.campaigns(true), Senders: senders(p.sink())})
	b.eventuallyState(id, inbox.EffectSkipped)
	if n := b.count(`SELECT count(*) FROM effect`); n != 1 || len(p.counts()) != 0 {
		t.Errorf("there are %d effects, and %v were sent", n, p.counts())
	}
}

// What one event in shadow mode would have done, its handler of before has done: a later event that means the same is a duplicate
// of it, also once the source is live. The key is free again for events received after its time.
func TestShadowOwnsItsKey(t *testing.T) {
	t.Parallel()
	for _, route := range []string{repeatable, once, within} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.keys.keep = time.Hour
			var happened atomic.Int64
			target := &sink{idempotent: route == repeatable, answer: func(context.Context, *effect.Call) effect.Result {
				happened.Add(1)
				return effect.Result{Outcome: effect.Done}
			}}
			cfg := jobs.Config{Routes: b.keyed("event.type"), Transactionals: map[string]effect.Transactional{
				within: effect.HandlerFunc(func(context.Context, pgx.Tx, effect.Event) error { happened.Add(1); return nil }),
			}}
			if route != within {
				cfg.Senders = senders(target)
			}
			owner := b.shadowed(route, 1)[0]
			b.client(cfg)
			b.eventuallyState(owner, inbox.EffectSkipped)
			for name, id := range map[string]inbox.ID{"in shadow mode": b.shadowed(route, 1)[0], "live": b.admit(route, 1)[0]} {
				b.eventuallyState(id, inbox.EffectDuplicate)
				if of := b.text(`SELECT duplicate_of::text FROM effect WHERE id = $1`, id); of != owner.String() {
					t.Errorf("%s: it is a duplicate of %s, want %s", name, of, owner)
				}
			}
			later := b.admitWith(route, 1, func(batch *pgx.Batch, ids []inbox.ID) {
				batch.Queue(`UPDATE inbox_event SET received_at = now() + interval '2 h' WHERE id = ANY ($1)`, ids)
			})[0]
			b.eventuallyState(later, inbox.EffectDone)
			if n := happened.Load(); n != 1 {
				t.Errorf("%d happened, want the one after the time of the key", n)
			}
		})
	}
}

// A worker that dies while it evaluates leaves no doubt, whatever the target can do: nothing of a shadow effect is ever sent.
func TestALostShadowIsCertain(t *testing.T) {
	t.Parallel()
	for _, route := range []string{repeatable, once} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.keys.window = time.Minute
			shadow, live := b.shadowed(route, 1)[0], b.admit(route, 1)[0]
			store := b.store("dead")
			for _, id := range []inbox.ID{shadow, live} {
				b.try(store, id)
			}
			b.exec(`UPDATE effect SET lease_until = now() - interval '1 h', next_at = now() - interval '1 h', send_started_at = now() - interval '1 h'`)
			b.sweep(b.sweeper(nil))
			if n := b.count(`SELECT count(*) FROM effect WHERE id = $1 AND (unknown_since IS NOT NULL OR state = 'indeterminate')`, shadow); n != 0 {
				t.Errorf("the outcome of a shadow effect is unknown: %+v", b.row(shadow))
			}
			if n := b.count(`SELECT count(*) FROM effect WHERE id = $1 AND (unknown_since IS NOT NULL OR state = 'indeterminate')`, live); n != 1 {
				t.Errorf("the outcome of a live effect is known: %+v", b.row(live))
			}
		})
	}
}

// Nothing but a plan that says so carries out what shadow mode skipped, and none does while the source is in shadow mode.
func TestReplaysOfShadowEffects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := &sink{idempotent: true}
	ids := b.shadowed(repeatable, 3)
	r := b.replays(replay.Config{Chunk: 2})
	b.client(jobs.Config{Replays: r, Senders: senders(target)})
	for _, id := range ids {
		b.eventuallyState(id, inbox.EffectSkipped)
	}
	named := replay.Scope{IDs: ids}
	p := plan(t, r, named, replay.Options{})
	if p.Summary.ToDo != 0 || p.Summary.Groups[0].LeftOut != replay.LeftOutShadow {
		t.Fatalf("a plan of the three is %+v, want them left out", p.Summary)
	}
	if p := plan(t, r, everything(), replay.Options{IncludeDiscarded: true}); p.Summary.Items != 0 {
		t.Errorf("a plan of what was discarded takes %d", p.Summary.Items)
	}
	again := plan(t, r, everything(), replay.Options{IncludeShadow: true})
	if again.Summary.ToDo != 3 || again.Summary.Groups[0].Action != replay.ActionReplay {
		t.Fatalf("a plan that evaluates again is %+v", again.Summary)
	}
	start(t, r, again)
	b.eventually("the three to be evaluated again", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE state = 'skipped' AND reason = 'shadow' AND version = 2 AND shadow`) == 3
	})
	if n := target.calls.Load(); n != 0 {
		t.Fatalf("%d were sent", n)
	}

	carry := replay.Options{CarryOutShadow: true}
	b.exec(`UPDATE source SET shadow = true`)
	if p := plan(t, r, named, carry); p.Summary.ToDo != 0 || p.Summary.Groups[0].LeftOut != replay.LeftOutShadow {
		t.Errorf("in shadow mode, the plan is %+v", p.Summary)
	}
	b.exec(`UPDATE source SET shadow = false`)
	p = plan(t, r, replay.Scope{IDs: ids[:1]}, carry)
	start(t, r, p)
	b.eventually("the run to end", func() bool { p, err := r.Status(t.Context(), p.ID); return err == nil && p.State == replay.Done })
	if got := b.row(ids[0]); got.State != string(inbox.EffectDone) || target.got(ids[0]) != 1 {
		t.Errorf("the effect is %+v, sent %d times", got, target.got(ids[0]))
	}
	if got := b.text(`SELECT string_agg(action, ',') FROM replay_item WHERE replay_id = $1`, p.ID); got != "carry_out" {
		t.Errorf("the plan says %s", got)
	}
	for _, id := range ids[1:] {
		if got := b.row(id); got.State != string(inbox.EffectSkipped) || target.got(id) != 0 {
			t.Errorf("one that was not in the plan is %+v, sent %d times", got, target.got(id))
		}
	}
	if n := b.count(`SELECT count(*) FROM effect WHERE shadow`); n != 2 {
		t.Errorf("%d effects are in shadow mode, want 2", n)
	}
}

// A run in a process whose source is in shadow mode does not carry out what a plan of another process includes.
func TestACarryOutStopsInShadowMode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.shadowed(once, 2)
	b.exec(`UPDATE effect SET state = 'skipped', reason = 'shadow', next_at = NULL, finished_at = now(), attempts = 1`)
	p := plan(t, b.replays(replay.Config{}), replay.Scope{IDs: ids}, replay.Options{CarryOutShadow: true})
	b.shadow = true
	old := b.replays(replay.Config{})
	start(t, old, p)
	run(t, old, p.ID)
	if got := b.text(`SELECT DISTINCT outcome || ': ' || detail FROM replay_outcome`); got != "left_out: its source is in shadow mode" {
		t.Errorf("the run says %q", got)
	}
	if n := b.count(`SELECT count(*) FROM effect WHERE shadow AND state = 'skipped' AND version = 1`); n != 2 {
		t.Errorf("%d effects are as they were, want 2", n)
	}
}

// The options that exclude each other are refused with one line.
func TestShadowOptionsExcludeEachOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.replays(replay.Config{})
	for _, o := range []replay.Options{{CarryOutShadow: true, NewKey: true}, {CarryOutShadow: true, IncludeShadow: true}} {
		if _, err := r.Plan(t.Context(), replay.PlanRequest{Scope: replay.Scope{DeadFilter: read.DeadFilter{Source: "shop"}}, Options: o, Actor: actor}); err == nil {
			t.Errorf("%+v was planned", o)
		}
	}
}
