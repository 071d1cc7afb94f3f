package inbox_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// TestRestoredEffects asks of every state, at every sort of target, what a restored database makes of it.
func TestRestoredEffects(t *testing.T) { //nolint:tparallel // one schema, one after the other
	t.Parallel()
	b := newLineBook(t)
	all := []inbox.EffectState{
		inbox.EffectPending, inbox.EffectClaimed, inbox.EffectRetry, inbox.EffectHeld, inbox.EffectDead, inbox.EffectIndeterminate,
		inbox.EffectDone, inbox.EffectSuperseded, inbox.EffectSkipped,
	}
	open := all[:5]
	const lastJob = 1000
	seen := func(id inbox.ID) (state inbox.EffectState, reason string, doubted bool) {
		t.Helper()
		err := b.Pool.QueryRow(t.Context(), `SELECT state, coalesce(reason, ''), unknown_since IS NOT NULL FROM effect WHERE id = $1`, id).Scan(&state, &reason, &doubted)
		if err != nil {
			t.Fatal(err)
		}
		return state, reason, doubted
	}
	mark := func(route *inbox.EffectRoute) (n int) {
		t.Helper()
		routes := map[int32]inbox.EffectRoute{}
		if route != nil {
			routes[b.Route] = *route
		}
		store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: b.Pool, Enqueuer: storetest.Queue(), Node: "test", Routes: routes})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // as after a crash
			if err := store.MarkRestored(t.Context(), b.Pool, lastJob, func(_ context.Context, _ pgx.Tx, marked int) error { n += marked; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	for name, c := range map[string]struct {
		route   *inbox.EffectRoute
		marks   bool
		doubts  bool
		ordered bool
	}{
		"a target that cannot deduplicate": {route: &inbox.EffectRoute{}, marks: true},
		"a route that is not known here":   {marks: true},
		"an ordered route":                 {route: &inbox.EffectRoute{Order: sequence.Policy{Mode: sequence.Contiguous}}, marks: true, ordered: true},
		"a target that deduplicates":       {route: &inbox.EffectRoute{Idempotent: true}},
		"a target that forgets keys":       {route: &inbox.EffectRoute{Idempotent: true, KeyWindow: time.Hour}, doubts: true},
		"a target in the database":         {route: &inbox.EffectRoute{InDatabase: true}},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Exec(t, b.Pool, `TRUNCATE effect, stream CASCADE`)
			ids := map[inbox.EffectState]inbox.ID{}
			for i, state := range all {
				key := string(state)
				b.Stream(key, "")
				ids[state] = b.Effect(key, i, state)
				if !c.ordered {
					storetest.Exec(t, b.Pool, `UPDATE effect SET sequence_key_hash = NULL, sequence_number = NULL WHERE id = $1`, ids[state])
				}
			}
			late := b.Effect("late", 1, inbox.EffectPending)
			storetest.Exec(t, b.Pool, `UPDATE effect SET job_id = $2 WHERE id = $1`, late, lastJob+1)
			n := mark(c.route)
			marked := 0
			for _, state := range all {
				is, reason, doubted := seen(ids[state])
				wantState, wantReason := state, reason
				if c.marks && slices.Contains(open, state) {
					wantState, wantReason = inbox.EffectIndeterminate, string(reasons.Restored)
					marked++
				}
				if is != wantState || reason != wantReason || doubted != (c.doubts && slices.Contains(open, state)) {
					t.Errorf("%s became %s (%s), in doubt %t", state, is, reason, doubted)
				}
			}
			if n != marked {
				t.Errorf("%d are counted, and %d were marked", n, marked)
			}
			if is, _, doubted := seen(late); is != inbox.EffectPending || doubted {
				t.Errorf("an effect that came later is %s", is)
			}
		})
	}

	// A stream continues in its order when its effects are resolved, under every policy.
	for name, policy := range map[string]sequence.Policy{ //nolint:paralleltest // see above
		"block": {Mode: sequence.Contiguous, Start: "1"}, "arrival": {Mode: sequence.Arrival}, "latest": {Mode: sequence.Latest},
		"skip": {Mode: sequence.Contiguous, Start: "1", OnDead: sequence.DeadSkip},
	} {
		t.Run("a stream with "+name, func(t *testing.T) {
			storetest.Exec(t, b.Pool, `TRUNCATE effect, stream CASCADE`)
			book := *b
			book.T = t
			l := &line{StreamBook: &book, key: "k" + name}
			route := inbox.EffectRoute{Order: policy, Retry: inbox.RetryPolicy{Attempts: 3, Base: time.Second, Max: time.Second}}
			var err error
			l.work, err = inbox.NewEffects(inbox.EffectsConfig{
				Pool: l.Pool, Enqueuer: storetest.Queue(), Node: "test", Routes: map[int32]inbox.EffectRoute{l.Route: route},
			})
			if err != nil {
				t.Fatal(err)
			}
			l.id = l.Stream(l.key, "")
			var ids []inbox.ID
			for n := 1; n <= 4; n++ {
				ids = append(ids, l.arrive(n))
			}
			for i, id := range ids { // the first is claimed, and the others are held until it ends
				claim, standing, err := l.work.Claim(t.Context(), id, int64(i+1))
				if err != nil || (claim != nil) != (i == 0) && name != "latest" {
					t.Fatalf("claiming %d: %+v, %+v, %v", i+1, claim, standing, err)
				}
			}
			if n := mark(&route); n == 0 {
				t.Fatal("nothing was marked")
			}
			for _, id := range ids {
				is, reason, _ := seen(id)
				if is == inbox.EffectSuperseded {
					continue // a newer version made it unnecessary
				}
				if is != inbox.EffectIndeterminate || reason != string(reasons.Restored) {
					t.Fatalf("an effect of the stream is %s (%s)", is, reason)
				}
				err := decide.New(l.work).Resolve(t.Context(), decide.Resolve{Effect: id, As: decide.ResolveDone, Actor: "ann", Reason: "seen at the bank"})
				if err != nil {
					t.Fatal(err)
				}
			}
			if found, err := l.work.CheckHeld(t.Context()); found != 0 || err != nil {
				t.Errorf("%d effects are held for no reason: %v", found, err)
			}
			next := l.arrive(5)
			if claim, standing, err := l.work.Claim(t.Context(), next, 9); err != nil || claim == nil {
				t.Errorf("the next effect of the stream does not run: %+v, %v", standing, err)
			}
		})
	}
}
