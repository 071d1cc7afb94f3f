package jobs_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// ordered gives the route an order and a store of a node that knows it.
func (b *bundle) ordered(route string, p sequence.Policy) *inbox.Effects {
	b.tb.Helper()
	b.order = map[string]sequence.Policy{route: p}
	return b.store("node-1")
}

// gap applies 1 of a key, and has 3 wait for 2, which is missing.
func (b *bundle) gap(store *inbox.Effects) (third inbox.ID) {
	b.tb.Helper()
	first := b.sequenced(repeatable, "order", "1")
	third = b.sequenced(repeatable, "order", "3")[0]
	b.end(store, b.claim(store, first[0]), inbox.EffectDone)
	if b.try(store, third) != nil {
		b.tb.Fatal("3 began, though 2 is missing")
	}
	return third
}

// pass lets time pass for a gap, and for the effect that waits behind it.
func (b *bundle) pass(interval string, waiting inbox.ID) {
	b.tb.Helper()
	b.exec(`UPDATE stream SET gap_since = gap_since - $1::text::interval`, interval)
	b.exec(`UPDATE effect SET next_at = now() WHERE id = $1 AND next_at IS NOT NULL`, waiting)
}

func (b *bundle) state(id inbox.ID, state inbox.EffectState, reason reasons.Reason) {
	b.tb.Helper()
	if r := b.row(id); r.State != string(state) || r.Reason != string(reason) {
		b.tb.Errorf("%+v, want %s %q", r, state, reason)
	}
}

// What ends a gap, at its times: the warning, patience, and the policy.
func TestGaps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		onGap   sequence.OnGap
		onDead  sequence.OnDead
		state   inbox.EffectState // of 3, after patience
		reason  reasons.Reason
		gaps    uint64 // given up
		blocked bool
	}{
		"hold":            {sequence.GapHold, "", inbox.EffectHeld, "", 0, false},
		"skip":            {sequence.GapSkip, "", inbox.EffectClaimed, "", 1, false},
		"fail":            {sequence.GapFail, "", inbox.EffectDead, reasons.Gap, 0, true},
		"fail, and go on": {sequence.GapFail, sequence.DeadSkip, inbox.EffectDead, reasons.Gap, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.ordered(repeatable, sequence.Policy{Mode: sequence.Contiguous, Start: "1", OnGap: c.onGap, OnDead: c.onDead, Patience: time.Hour})
			third := b.gap(store)
			if n := b.count(`SELECT count(*) FROM effect WHERE id = $1 AND next_at BETWEEN now() + interval '5 min' AND now() + interval '7 min'`, third); n != 1 {
				t.Error("3 is not looked at again at the time of the warning")
			}
			b.pass("7 min", third)
			b.exec(`DELETE FROM river_job`)
			if report := b.sweep(b.sweeper(nil)); report.Woken != 1 || report.Freed != 0 {
				t.Errorf("%+v, want one woken", report)
			}
			b.try(store, third)
			b.state(third, inbox.EffectHeld, b.reasonOf(third))
			if got := store.OrderStats()[b.routes[repeatable]]; got.LongGaps != 1 || got.AbandonedGaps != 0 {
				t.Errorf("%+v, want one long gap", got)
			}
			b.pass("1 h", third)
			b.try(store, third)
			b.state(third, c.state, c.reason)
			if got := store.OrderStats()[b.routes[repeatable]]; got.LongGaps != 1 || got.AbandonedGaps != c.gaps {
				t.Errorf("%+v, want %d gaps given up", got, c.gaps)
			}
			if n := b.count(`SELECT count(*) FROM audit WHERE action = 'stream.gap.abandoned' AND after = '{"first": "2", "last": "2"}'`); n != int(c.gaps) {
				t.Errorf("%d audit entries, want %d", n, c.gaps)
			}
			if got := b.count(`SELECT count(*) FROM stream WHERE blocked_by = $1`, third) == 1; got != c.blocked {
				t.Errorf("blocked %t, want %t", got, c.blocked)
			}
		})
	}
}

func (b *bundle) reasonOf(id inbox.ID) reasons.Reason { return reasons.Reason(b.row(id).Reason) }

// A predecessor that is recorded is not missing, however long it takes.
func TestASlowPredecessorIsNoGap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.ordered(repeatable, sequence.Policy{Mode: sequence.Contiguous, Start: "1", OnGap: sequence.GapSkip, Patience: time.Hour})
	third := b.gap(store)
	second := b.sequenced(repeatable, "order", "2")[0]
	b.pass("2 h", third)
	if b.try(store, third) != nil {
		t.Fatal("3 began, though 2 is recorded by now")
	}
	if n := b.count(`SELECT count(*) FROM stream WHERE gap_since IS NULL`); n != 1 {
		t.Error("the gap has not ended")
	}
	b.end(store, b.claim(store, second), inbox.EffectRetry)
	if b.try(store, third) != nil {
		t.Fatal("3 began while 2 retries")
	}
	b.exec(`UPDATE effect SET next_at = now() WHERE id = $1`, second)
	b.end(store, b.claim(store, second), inbox.EffectDone)
	b.state(third, inbox.EffectPending, "")
}

// What becomes of a number that comes after it was given up.
func TestLateArrivals(t *testing.T) {
	t.Parallel()
	for policy, want := range map[sequence.Late]inbox.EffectState{
		sequence.LateDrop: inbox.EffectSuperseded, sequence.LateApply: inbox.EffectClaimed, sequence.LateDead: inbox.EffectDead,
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.ordered(repeatable, sequence.Policy{Mode: sequence.Contiguous, Start: "1", OnGap: sequence.GapSkip, Late: policy, Patience: time.Hour})
			third := b.gap(store)
			b.pass("2 h", third)
			b.end(store, b.claim(store, third), inbox.EffectDone)
			second := b.sequenced(repeatable, "order", "2")[0]
			claim := b.try(store, second)
			if want != inbox.EffectClaimed {
				b.state(second, want, reasons.Late)
			} else if claim == nil || !claim.Late {
				t.Errorf("%+v is not claimed as late", claim)
			}
			if got := store.OrderStats()[b.routes[repeatable]].Late; got != 1 {
				t.Errorf("%d late ones are counted, want 1", got)
			}
			if n := b.count(`SELECT applied::int FROM stream`); n != 3 {
				t.Errorf("applied %d, want 3", n)
			}
		})
	}
}

// Two effects with one number.
func TestTies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode   sequence.Mode
		ties   sequence.Choice
		state  inbox.EffectState
		reason reasons.Reason
		ties1  uint64
	}{
		"contiguous":        {sequence.Contiguous, "", inbox.EffectDead, reasons.Tie, 1},
		"contiguous, hold":  {sequence.Contiguous, sequence.Hold, inbox.EffectHeld, reasons.Tie, 1},
		"contiguous, apply": {sequence.Contiguous, sequence.Apply, inbox.EffectClaimed, "", 0},
		"latest":            {sequence.Latest, "", inbox.EffectClaimed, "", 0},
		"latest, dead":      {sequence.Latest, sequence.Dead, inbox.EffectDead, reasons.Tie, 1},
		"latest, hold":      {sequence.Latest, sequence.Hold, inbox.EffectHeld, reasons.Tie, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.ordered(repeatable, sequence.Policy{Mode: c.mode, Ties: c.ties, Start: "1"})
			first := b.claim(store, b.sequenced(repeatable, "order", "1")[0])
			b.end(store, first, inbox.EffectDone)
			twin := b.sequenced(repeatable, "order", "1")[0]
			b.try(store, twin)
			b.state(twin, c.state, c.reason)
			if got := store.OrderStats()[b.routes[repeatable]].Ties; got != c.ties1 {
				t.Errorf("%d ties are counted, want %d", got, c.ties1)
			}
			if c.state == inbox.EffectClaimed {
				return
			}
			b.end(store, b.claim(store, b.sequenced(repeatable, "order", "2")[0]), inbox.EffectDone)
			b.state(twin, c.state, c.reason)
			if report := b.sweep(b.sweeper(nil)); report.Freed != 0 {
				t.Error("the sweeper set a tie going")
			}
		})
	}
}

// Without a start, the smallest number that came within the settle window begins.
func TestTheFirstNumberIsLearned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.ordered(repeatable, sequence.Policy{Mode: sequence.Contiguous, Settle: time.Minute})
	ids := b.sequenced(repeatable, "order", "5", "3", "4")
	for _, id := range ids {
		if b.try(store, id) != nil {
			t.Fatal("one began before it was known which is the first")
		}
	}
	b.exec(`UPDATE stream SET started_at = now() - interval '2 min'`)
	b.exec(`UPDATE effect SET next_at = now() WHERE next_at IS NOT NULL`)
	b.exec(`DELETE FROM river_job`)
	b.sweep(b.sweeper(nil))
	for _, id := range []inbox.ID{ids[1], ids[2], ids[0]} {
		b.end(store, b.claim(store, id), inbox.EffectDone)
	}
	if n := b.count(`SELECT applied::int FROM stream`); n != 5 {
		t.Errorf("applied %d, want 5", n)
	}
	late := b.sequenced(repeatable, "order", "2")[0]
	b.try(store, late)
	b.state(late, inbox.EffectSuperseded, reasons.Late)
}

// In mode latest a deletion leaves its number behind, only the newest of those that
// wait runs, and an unknown outcome counts as applied.
func TestLatestCoalesces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.ordered(repeatable, sequence.Policy{Mode: sequence.Latest})
	claim := b.claim(store, b.sequenced(repeatable, "sub", "1.5")[0])
	var numbers []string
	for n := range 40 {
		numbers = append(numbers, "2."+string(rune('1'+n%9))+string(rune('0'+n/9)))
	}
	waiting := b.sequenced(repeatable, "sub", append(numbers, "1700000000123456789")...)
	newest := waiting[len(waiting)-1]
	for _, id := range waiting[:10] {
		b.try(store, id)
	}
	b.try(store, newest)
	b.state(newest, inbox.EffectHeld, "")
	b.end(store, claim, inbox.EffectDone)
	if n := b.count(`SELECT count(*) FROM effect WHERE state = 'superseded'`); n != len(numbers) {
		t.Errorf("%d are superseded, want %d", n, len(numbers))
	}
	b.end(store, b.claim(store, newest), inbox.EffectIndeterminate)
	older := b.sequenced(repeatable, "sub", "1700000000123456788")[0]
	b.try(store, older)
	b.state(older, inbox.EffectSuperseded, "")
}
