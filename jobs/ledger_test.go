package jobs_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

func compile(tb testing.TB, source string, want expression.Want) *expression.Program {
	tb.Helper()
	p, err := expression.Compile(source, want)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// changed gives the bundle's routes with a change to each.
func (b *bundle) changed(change func(*jobs.Route)) map[int32]jobs.Route {
	routes := map[int32]jobs.Route{}
	for name, id := range b.routes {
		r := jobs.Route{Name: name, Source: "shop", Provider: "test", Target: name}
		change(&r)
		routes[id] = r
	}
	return routes
}

func (b *bundle) keyed(fields ...string) map[int32]jobs.Route {
	recipe := &expression.Recipe{Version: 1}
	for _, f := range fields {
		recipe.Fields = append(recipe.Fields, compile(b.tb, f, expression.Value))
	}
	return b.changed(func(r *jobs.Route) { r.Key = recipe })
}

// Of many events with one key, claimed by two processes at once, one happens.
func TestOneEffectForOneKey(t *testing.T) {
	t.Parallel()
	for _, route := range []string{repeatable, once, within} {
		for _, mode := range []string{"keep", "within"} {
			t.Run(route+"/"+mode, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				if mode == "within" {
					b.keys.within = time.Minute
				}
				const n = 60
				b.exec(`CREATE TABLE applied (event text)`)
				b.admit(route, n)
				apply := func(ctx context.Context, event string) effect.Result {
					if _, err := b.pool.Exec(ctx, `INSERT INTO applied VALUES ($1)`, event); err != nil {
						return effect.Result{Outcome: effect.Dead}
					}
					return effect.Result{Outcome: effect.Done, Stored: []byte("receipt 7")}
				}
				for node := range 2 {
					b.client(jobs.Config{
						Store: b.store(fmt.Sprint("node-", node)), Routes: b.keyed("event.type", "body.paid"), MaxWorkers: 20,
						Senders: map[string]effect.Sender{
							repeatable: &sink{idempotent: true, answer: func(ctx context.Context, c *effect.Call) effect.Result { return apply(ctx, c.Event.ID) }},
							once:       &sink{answer: func(ctx context.Context, c *effect.Call) effect.Result { return apply(ctx, c.Event.ID) }},
						},
						Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, e effect.Event) error {
							_, err := tx.Exec(ctx, `INSERT INTO applied VALUES ($1)`, e.ID)
							return err
						})},
					})
				}
				b.eventually("all settled", func() bool { return b.count(`SELECT count(*) FROM effect WHERE finished_at IS NULL`) == 0 })
				if got := b.count(`SELECT count(*) FROM applied`); got != 1 {
					t.Errorf("it happened %d times", got)
				}
				if got := b.count(`SELECT count(*) FROM effect e JOIN effect o ON o.id = e.duplicate_of WHERE e.state = 'duplicate' AND o.state = 'done'`); got != n-1 {
					t.Errorf("%d are duplicates of the one that is done, want %d", got, n-1)
				}
				if got := b.count(`SELECT count(*) FROM effect WHERE state = 'duplicate' AND attempts > 0`); got != 0 {
					t.Errorf("%d duplicates spent an attempt", got)
				}
			})
		}
	}
}

// own claims an effect and asks for the key.
func (b *bundle) own(store *inbox.Effects, id inbox.ID, key string) (*inbox.Claim, inbox.Owner) {
	b.tb.Helper()
	claim := b.claim(store, id)
	hash := sha256.Sum256([]byte(key))
	owner, err := store.Own(b.tb.Context(), claim, hash[:])
	if err != nil {
		b.tb.Fatal(err)
	}
	if !owner.Held {
		b.tb.Fatal("the claim is no longer held")
	}
	return claim, owner
}

func (b *bundle) settle(store *inbox.Effects, s inbox.Settlement) {
	b.tb.Helper()
	out, err := store.Settle(b.tb.Context(), s)
	if err != nil || !out.Applied {
		b.tb.Fatalf("%+v, %v", out, err)
	}
}

func (b *bundle) resolve(store *inbox.Effects, id inbox.ID, as decide.Resolution) {
	b.tb.Helper()
	if err := decide.New(store).Resolve(b.tb.Context(), decide.Resolve{Effect: id, As: as, Actor: "ann", Reason: "seen at the bank"}); err != nil {
		b.tb.Fatal(err)
	}
}

// What a second effect with the key meets, by what has become of the first.
func TestEveryTransitionOfAnOwner(t *testing.T) {
	t.Parallel()
	end := func(state inbox.EffectState, outcome inbox.AttemptOutcome, reason reasons.Reason) func(*bundle, *inbox.Effects, *inbox.Claim) {
		return func(b *bundle, store *inbox.Effects, claim *inbox.Claim) {
			s := done(claim)
			s.State, s.Outcome, s.Reason, s.Result = state, outcome, reason, []byte("receipt")
			b.settle(store, s)
		}
	}
	later := func(d time.Duration) string {
		return fmt.Sprintf(`UPDATE inbox_event SET received_at = received_at + interval '%d seconds' WHERE id = $1`, int(d.Seconds()))
	}
	for name, c := range map[string]struct {
		first func(*bundle, *inbox.Effects, *inbox.Claim)
		event string // what is different about the second one's event
		owns  string // first, second, or neither
	}{
		"claimed":                          {func(*bundle, *inbox.Effects, *inbox.Claim) {}, "", "first"},
		"claimed, long ago":                {func(*bundle, *inbox.Effects, *inbox.Claim) {}, later(48 * time.Hour), "first"},
		"retry":                            {end(inbox.EffectRetry, inbox.AttemptRetry, reasons.Timeout), "", "first"},
		"retry, long ago":                  {end(inbox.EffectRetry, inbox.AttemptRetry, reasons.Timeout), later(48 * time.Hour), "first"},
		"done":                             {end(inbox.EffectDone, inbox.AttemptDone, ""), "", "first"},
		"done, just inside the window":     {end(inbox.EffectDone, inbox.AttemptDone, ""), later(24*time.Hour - time.Second), "first"},
		"done, beyond the window":          {end(inbox.EffectDone, inbox.AttemptDone, ""), later(24*time.Hour + time.Second), "second"},
		"done, and the other one is older": {end(inbox.EffectDone, inbox.AttemptDone, ""), later(-25 * time.Hour), "neither"},
		"done, and pruned": {func(b *bundle, store *inbox.Effects, claim *inbox.Claim) {
			end(inbox.EffectDone, inbox.AttemptDone, "")(b, store, claim)
			b.exec(`DELETE FROM effect WHERE id = $1`, claim.Effect)
		}, later(25 * time.Hour), "second"},
		"dead":                    {end(inbox.EffectDead, inbox.AttemptDead, reasons.Status4xx), "", "second"},
		"dead, long ago":          {end(inbox.EffectDead, inbox.AttemptDead, reasons.Status4xx), later(48 * time.Hour), "second"},
		"indeterminate":           {end(inbox.EffectIndeterminate, inbox.AttemptIndeterminate, reasons.Timeout), "", "first"},
		"indeterminate, long ago": {end(inbox.EffectIndeterminate, inbox.AttemptIndeterminate, reasons.Timeout), later(48 * time.Hour), "first"},
		"superseded":              {end(inbox.EffectSuperseded, "", ""), "", "second"},
		"skipped":                 {end(inbox.EffectSkipped, inbox.AttemptSkipped, reasons.Other), "", "second"},
		"dead, and armed again": {func(b *bundle, store *inbox.Effects, claim *inbox.Claim) {
			end(inbox.EffectDead, inbox.AttemptDead, reasons.Status4xx)(b, store, claim)
			if n, err := store.Rearm(b.tb.Context(), claim.Event.ID); n != 1 || err != nil {
				b.tb.Fatalf("%d armed again, %v", n, err)
			}
		}, "", "first"},
		"indeterminate, and found done": {func(b *bundle, store *inbox.Effects, claim *inbox.Claim) {
			end(inbox.EffectIndeterminate, inbox.AttemptIndeterminate, reasons.Timeout)(b, store, claim)
			b.resolve(store, claim.Effect, decide.ResolveDone)
		}, "", "first"},
		"indeterminate, found done, and long ago": {func(b *bundle, store *inbox.Effects, claim *inbox.Claim) {
			end(inbox.EffectIndeterminate, inbox.AttemptIndeterminate, reasons.Timeout)(b, store, claim)
			b.resolve(store, claim.Effect, decide.ResolveDone)
		}, later(48 * time.Hour), "second"},
		"indeterminate, and sent again": {func(b *bundle, store *inbox.Effects, claim *inbox.Claim) {
			end(inbox.EffectIndeterminate, inbox.AttemptIndeterminate, reasons.Timeout)(b, store, claim)
			b.resolve(store, claim.Effect, decide.ResolveResend)
		}, later(48 * time.Hour), "first"},
		"its lease has ended": {func(b *bundle, _ *inbox.Effects, claim *inbox.Claim) {
			b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s' WHERE id = $1`, claim.Effect)
			b.sweep(b.sweeper(nil))
		}, "", "first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.keys.keep = 24 * time.Hour
			ids := b.admit(repeatable, 2)
			b.exec(`UPDATE inbox_event SET received_at = (SELECT min(received_at) FROM inbox_event)`)
			store := b.store("node-1")
			claim, owner := b.own(store, ids[0], "order 7")
			if owner.Effect != ids[0] {
				t.Fatalf("the first one does not own its key: %+v", owner)
			}
			c.first(b, store, claim)
			if c.event != "" {
				b.exec(c.event, ids[1])
			}
			second, owner := b.own(store, ids[1], "order 7")
			want := map[string]inbox.ID{"first": ids[0], "second": ids[1], "neither": {}}[c.owns]
			if owner.Effect != want {
				t.Fatalf("owned by %s, want the %s: %s", owner.Effect, c.owns, want)
			}
			if c.owns != "first" {
				return
			}
			s := done(second)
			s.State, s.Outcome, s.DuplicateOf = inbox.EffectDuplicate, "", owner.Effect
			b.settle(store, s)
			result := b.count(`SELECT count(*) FROM effect e JOIN effect o ON o.id = e.duplicate_of
				WHERE e.id = $1 AND e.result IS NOT DISTINCT FROM o.result`, ids[1])
			if result != 1 {
				t.Error("the duplicate does not have the owner's result")
			}
			// What is done to the duplicate later is done to its owner.
			state := b.row(ids[0]).State
			n, err := store.Rearm(t.Context(), second.Event.ID)
			if err != nil || (n == 1) != (state == string(inbox.EffectDead)) {
				t.Errorf("a redelivery of the duplicate armed %d again, %v; the owner was %s", n, err, state)
			}
		})
	}
}

// Two versions of one recipe, and two routes, know nothing of each other.
func TestKeysWithin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keys.within = time.Minute
	store := b.store("node-1")
	ids := b.admit(repeatable, 6)
	// In the order of their claims; the second was received last.
	for i, second := range []int{0, 100, 60, 30, 161, 159} {
		b.exec(`UPDATE inbox_event SET received_at = timestamptz '2026-01-01' + $2 * interval '1 s' WHERE id = $1`, ids[i], second)
	}
	for i, want := range []int{0, 1, 0, 0, 4, 1} {
		if _, owner := b.own(store, ids[i], "form 7"); owner.Effect != ids[want] {
			t.Errorf("effect %d is owned by %s, want %d", i, owner.Effect, want)
		}
	}
}

func TestConditionsAndMappings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(testing.TB, *jobs.Route)
		state  inbox.EffectState
		reason reasons.Reason
		said   string
		calls  int64
	}{
		"true": {func(tb testing.TB, r *jobs.Route) {
			tb.Helper()
			r.When = compile(tb, `body.paid == 1`, expression.Condition)
		}, inbox.EffectDone, "", "", 1},
		"false": {func(tb testing.TB, r *jobs.Route) {
			tb.Helper()
			r.When = compile(tb, `body.paid > 1`, expression.Condition)
		}, inbox.EffectSkipped, reasons.Condition, "", 0},
		"a condition that fails": {func(tb testing.TB, r *jobs.Route) {
			tb.Helper()
			r.When = compile(tb, `body.lost > 1`, expression.Condition)
		},
			inbox.EffectDead, reasons.Mapping, "when: body.lost > 1: a field is missing", 0},
		"a key that fails": {func(tb testing.TB, r *jobs.Route) {
			tb.Helper()
			r.Key = &expression.Recipe{Fields: []*expression.Program{compile(tb, `body.lost`, expression.Value)}}
		}, inbox.EffectDead, reasons.Mapping, "key: field 1 of the key, body.lost: a field is missing", 0},
		"a mapping that fails": {func(tb testing.TB, r *jobs.Route) {
			tb.Helper()
			r.Map = expression.NewMapping(compile(tb, `body.lost`, expression.Value))
		}, inbox.EffectDead, reasons.Mapping, "map: body.lost: a field is missing", 0},
	} {
		for _, route := range []string{repeatable, once, within} {
			if route == within && strings.Contains(name, "mapping") {
				continue // a mapping makes what is sent
			}
			t.Run(name+"/"+route, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				id := b.admit(route, 1)[0]
				s := &sink{idempotent: route == repeatable}
				cfg := jobs.Config{Routes: b.changed(func(r *jobs.Route) { c.change(t, r) }), Senders: senders(s)}
				cfg.Transactionals = map[string]effect.Transactional{within: effect.HandlerFunc(func(context.Context, pgx.Tx, effect.Event) error { s.calls.Add(1); return nil })}
				b.client(cfg)
				b.eventuallyState(id, c.state)
				var said string
				if err := b.pool.QueryRow(t.Context(), `SELECT coalesce(max(excerpt), '') FROM effect_attempt`).Scan(&said); err != nil {
					t.Fatal(err)
				}
				if r := b.row(id); r.Reason != string(c.reason) || said != c.said || s.calls.Load() != c.calls {
					t.Errorf("reason %q, said %q, %d calls", r.Reason, said, s.calls.Load())
				}
			})
		}
	}
}

// What is mapped is made once and stored: another attempt sends the same bytes.
func TestAMappedBodyIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	bodies := make(chan string, 2)
	s := &sink{idempotent: true, answer: func(_ context.Context, c *effect.Call) effect.Result {
		bodies <- c.Event.ContentType + " " + string(c.Rendered)
		if c.Attempt == 1 {
			return effect.Result{Outcome: effect.Retry, Reason: reasons.Status503}
		}
		return effect.Result{Outcome: effect.Done}
	}}
	m := expression.NewObject(map[string]*expression.Mapping{"sum": expression.NewMapping(compile(t, `body.paid * 2`, expression.Value))})
	b.client(jobs.Config{Senders: senders(s), Routes: b.changed(func(r *jobs.Route) { r.Map = m })})
	b.eventuallyState(id, inbox.EffectDone)
	for range 2 {
		if got := <-bodies; got != `application/json {"sum":2}` {
			t.Errorf("sent %s", got)
		}
	}
	if got := string(b.row(id).Rendered); got != `{"sum":2}` {
		t.Errorf("stored %s", got)
	}
}

// Once the target has forgotten the key of an attempt that may have happened,
// nothing is sent again: by a retry, by a sweep or by a redelivery.
func TestNothingIsSentPastTheKeyWindow(t *testing.T) {
	t.Parallel()
	lost := func(context.Context, *effect.Call) effect.Result {
		return effect.Result{Outcome: effect.Unknown, Reason: reasons.Timeout}
	}
	refused := func(context.Context, *effect.Call) effect.Result {
		return effect.Result{Outcome: effect.Retry, Reason: reasons.Connect}
	}
	for name, c := range map[string]struct {
		before string
		answer func(context.Context, *effect.Call) effect.Result
		state  inbox.EffectState
		calls  int64
	}{
		"the first attempt is lost":        {``, lost, inbox.EffectDead, 5},
		"a lost attempt beyond the window": {`UPDATE effect SET unknown_since = now() - interval '61 min', attempts = 1, state = 'retry'`, lost, inbox.EffectIndeterminate, 0},
		"a lost attempt inside the window": {`UPDATE effect SET unknown_since = now() - interval '59 min', attempts = 4, state = 'retry'`, lost, inbox.EffectDead, 1},
		"nothing has reached the target":   {`UPDATE inbox_event SET received_at = now() - interval '10 h'`, refused, inbox.EffectDead, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.keys.window = time.Hour
			id := b.admit(repeatable, 1)[0]
			if c.before != "" {
				b.exec(c.before)
			}
			s := &sink{idempotent: true, answer: c.answer}
			b.client(jobs.Config{Senders: senders(s)})
			b.eventuallyState(id, c.state)
			if got := s.calls.Load(); got != c.calls {
				t.Errorf("%d calls, want %d", got, c.calls)
			}
			if c.state == inbox.EffectIndeterminate && b.row(id).Reason != string(reasons.KeyWindow) {
				t.Errorf("reason %s", b.row(id).Reason)
			}
		})
	}
	t.Run("a redelivery", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.keys.window = time.Hour
		id := b.admit(repeatable, 1)[0]
		b.exec(`UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', next_at = NULL, unknown_since = now() - interval '2 h'`)
		if n, err := b.store("node-1").Rearm(t.Context(), id); n != 0 || err != nil {
			t.Errorf("%d armed again, %v", n, err)
		}
		if r := b.row(id); r.State != string(inbox.EffectIndeterminate) || r.Reason != string(reasons.KeyWindow) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a sweep", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.keys.window = time.Hour
		id := b.admit(repeatable, 1)[0]
		b.claim(b.store("node-1"), id)
		b.exec(`UPDATE effect SET lease_until = now() - interval '2 h', next_at = now() - interval '2 h'`)
		b.sweep(b.sweeper(nil))
		if r := b.row(id); r.State != string(inbox.EffectIndeterminate) || r.Reason != string(reasons.KeyWindow) {
			t.Errorf("%+v", r)
		}
	})
}
