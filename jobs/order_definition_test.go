package jobs_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
)

// redefine gives the route an order as a process does that starts with it.
func (b *bundle) redefine(words string, policy sequence.Policy) inbox.Series {
	b.tb.Helper()
	series, err := inbox.RegisterOrders(b.tb.Context(), b.pool, b.keyring, map[int32]inbox.OrderDefinition{b.routes[repeatable]: {Words: words, Policy: policy}})
	if err != nil {
		b.tb.Fatal(err)
	}
	b.order = map[string]sequence.Policy{repeatable: policy}
	b.series = series[b.routes[repeatable]]
	return b.series
}

// under admits effects of a sequence as the gate does under a definition.
func (b *bundle) under(s inbox.Series, key string, numbers ...string) []inbox.ID {
	b.tb.Helper()
	ids := b.sequenced(repeatable, key, numbers...)
	hash := s.KeyHash("shop", repeatable, key)
	b.exec(`INSERT INTO stream (route_id, key_hash, key_label, definition_id) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, b.routes[repeatable], hash, key, s.ID)
	b.exec(`UPDATE effect SET sequence_key_hash = $2 WHERE id = ANY ($1::uuid[])`, ids, hash)
	return ids
}

// A changed definition of order begins new streams: what is held under the old one is
// decided by the old one, in its order, and nothing of it is superseded, though under
// the new one it would be; the new one begins with its own numbers.
func TestAChangedOrderBeginsNewStreams(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.redefine("mode contiguous, key a, number b", sequence.Policy{Mode: sequence.Contiguous, Start: "1"})
	before := b.under(old, "17", "1", "2", "3")
	for _, id := range before[1:] {
		if b.try(b.store("node-1"), id) != nil {
			t.Fatal("it was claimed before the first")
		}
	}
	changed := b.redefine("mode latest, key a, number c", sequence.Policy{Mode: sequence.Latest})
	if string(changed.Salt) == "" || old.Salt != nil {
		t.Fatalf("series %+v, then %+v", old, changed)
	}
	after := b.under(changed, "17", "1", "2")
	b.client(jobs.Config{Store: b.store("node-2")})
	for _, id := range before {
		b.eventuallyState(id, inbox.EffectDone)
	}
	b.eventuallyState(after[1], inbox.EffectDone)
	if n := b.states(before, "superseded"); n != 0 {
		t.Errorf("%d held under the old definition are superseded", n)
	}
	if n := b.count(`SELECT count(*) FROM (SELECT e.sequence_number - lag(e.sequence_number) OVER (ORDER BY t.finished_at) AS d
		FROM effect_attempt t JOIN effect e ON e.id = t.effect_id WHERE t.outcome = 'done' AND e.id = ANY ($1::uuid[])) x WHERE d < 0`, before); n != 0 {
		t.Error("those of the old definition did not happen in their order")
	}
	again := b.redefine("mode contiguous, key a, number b", sequence.Policy{Mode: sequence.Contiguous, Start: "1"})
	if again.ID != old.ID || again.Salt != nil {
		t.Errorf("back at the first definition the series is %+v, want %+v", again, old)
	}
}

// Two processes with two definitions live at once, as while one replaces the other,
// each admit to their own streams, and each can carry out what the other admitted.
func TestTwoOrdersLiveAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newer := sequence.Policy{Mode: sequence.Arrival}
	old := b.redefine("mode contiguous", sequence.Policy{Mode: sequence.Contiguous, Start: "1"})
	first := b.store("node-1")
	changed := b.redefine("mode arrival", newer)
	ids := append(b.under(old, "k", "2", "1"), b.under(changed, "k", "7", "9")...)
	b.client(jobs.Config{Store: first}) // it knows only its own
	for _, id := range ids {
		b.eventuallyState(id, inbox.EffectDone)
	}
}

// What becomes of a route's streams is said before it happens.
func TestAChangedOrderIsSaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.redefine("mode contiguous, key a", sequence.Policy{Mode: sequence.Contiguous, Start: "1"})
	b.try(b.store("node-1"), b.under(old, "17", "2")[0])
	same := &inbox.OrderDefinition{Words: "mode contiguous, key a", Policy: sequence.Policy{Mode: sequence.Contiguous, Start: "5"}}
	if c, err := inbox.ReadOrderChange(t.Context(), b.pool, "shop", repeatable, same); c != nil || err != nil {
		t.Errorf("of the same definition: %v, %v", c, err)
	}
	c, err := inbox.ReadOrderChange(t.Context(), b.pool, "shop", repeatable, &inbox.OrderDefinition{Words: "mode latest, key b"})
	if err != nil || c == nil || c.Old != "mode contiguous, key a" || c.New != "mode latest, key b" || c.Held != 1 || c.Streams < 1 || c.Known {
		t.Errorf("of another: %+v, %v", c, err)
	}
	if c, err = inbox.ReadOrderChange(t.Context(), b.pool, "shop", repeatable, nil); err != nil || c == nil || c.New != "" || c.Held != 1 {
		t.Errorf("of none: %+v, %v", c, err)
	}
}
