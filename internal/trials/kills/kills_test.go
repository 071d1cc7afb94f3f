package kills_test

import (
	"flag"
	"maps"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/kills"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

var (
	cycles = flag.Int("cycles", 26, "how often something happens to a worker")
	seed   = flag.Uint64("seed", 0, "of the order of the steps; 0 draws one")
)

// TestKills is one test because its parts share a PostgreSQL and the binaries.
func TestKills(t *testing.T) { //nolint:tparallel // it needs the machine for itself
	world, err := kills.NewWorld(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := world.Close(); err != nil {
			t.Error(err)
		}
	})
	*seed = rig.DrawSeed(*seed)
	t.Run("campaign", func(t *testing.T) {
		t.Parallel()
		result, err := kills.Run(lab.TestContext(t), world, kills.Options{Cycles: *cycles, Seed: *seed, Progress: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(result.Summary.String())
		for _, line := range rig.List(result.Violations) {
			t.Error(line)
		}
		if s := &result.Summary; *cycles >= 26 && (s.Duplicates < 40 || s.SentAgain < 5 || s.Indeterminate < 7 || s.Pauses < 2 || s.Cuts < 4) {
			t.Errorf("too little happened to prove anything: %s", s)
		}
		if !t.Failed() {
			damaged(t, result)
		}
	})
	// A check that has never been seen to fail proves nothing.
	for wrong, kind := range kills.ExpectedKind {
		t.Run(string(wrong), func(t *testing.T) {
			t.Parallel()
			result, err := kills.Run(lab.TestContext(t), world, kills.Options{Cycles: 1, Seed: *seed, Defect: wrong})
			if err != nil {
				t.Fatal(err)
			}
			if rig.CountKind(result.Violations, kind) == 0 {
				t.Errorf("not noticed as %s; found %v", kind, result.Violations)
			}
		})
	}
}

// damaged changes what a campaign that was in order has left, in the ways that no
// wrong worker shows.
func damaged(t *testing.T, r *kills.Result) {
	t.Helper()
	for _, m := range []struct {
		name   string
		want   rig.Kind
		route  kills.Route
		state  inbox.EffectState
		damage func(*kills.Effect, *kills.TargetRequests)

		certain bool // nothing of the effect was ever in doubt
	}{
		{"an effect in the database happens twice", kills.Doubled, kills.Table, inbox.EffectDone, func(e *kills.Effect, _ *kills.TargetRequests) { e.Applied++ }, false},
		{"an effect in the database is lost", kills.Lost, kills.Table, inbox.EffectDone, func(e *kills.Effect, _ *kills.TargetRequests) { e.Applied = 0 }, false},
		{"a lease is ended early", kills.Early, kills.Once, inbox.EffectDone, func(e *kills.Effect, _ *kills.TargetRequests) { e.Early = 1 }, false},
		{"an effect is never finished", kills.Unfinished, kills.Idempotent, inbox.EffectDone, func(e *kills.Effect, _ *kills.TargetRequests) { e.State = inbox.EffectRetry }, false},
		{"a message is sent twice", kills.Doubled, kills.Mail, inbox.EffectDone, func(_ *kills.Effect, h *kills.TargetRequests) { h.Complete, h.Answered = 2, 2 }, false},
		{"an uncertain message is called done", kills.Misstated, kills.Mail, inbox.EffectIndeterminate, func(e *kills.Effect, h *kills.TargetRequests) {
			e.State, h.Complete, h.Answered = inbox.EffectDone, 1, 0
		}, false},
		{"what never arrived is called done", kills.Lost, kills.Once, inbox.EffectDone, func(_ *kills.Effect, h *kills.TargetRequests) { *h = kills.TargetRequests{} }, false},
		{"a given-up effect at a target that deduplicates", kills.Unfinished, kills.Idempotent, inbox.EffectDone, func(e *kills.Effect, _ *kills.TargetRequests) {
			e.State = inbox.EffectDead
		}, false},
		{"what was never in doubt is indeterminate", kills.Misstated, kills.Once, inbox.EffectIndeterminate, func(*kills.Effect, *kills.TargetRequests) {}, true},
		{"a message that the target took is indeterminate", kills.Unexplained, kills.Once, inbox.EffectDone, func(e *kills.Effect, _ *kills.TargetRequests) {
			e.State, e.Reason = inbox.EffectIndeterminate, reasons.Connection
		}, false},
		{"a refusal that precedes the work is indeterminate", kills.Unexplained, kills.Once, inbox.EffectIndeterminate, func(e *kills.Effect, _ *kills.TargetRequests) {
			e.Reason = reasons.Status429
		}, false},
		{"a duplicate happens too", kills.Doubled, kills.Once, inbox.EffectDuplicate, func(_ *kills.Effect, h *kills.TargetRequests) { h.Complete, h.Answered = 1, 1 }, false},
		{"a duplicate is done in the database", kills.Doubled, kills.Table, inbox.EffectDuplicate, func(e *kills.Effect, _ *kills.TargetRequests) {
			e.State, e.Applied = inbox.EffectDone, 1
		}, false},
		{"two events wait for each other", kills.Lost, kills.Once, inbox.EffectDone, func(e *kills.Effect, h *kills.TargetRequests) {
			e.State = inbox.EffectDuplicate
			*h = kills.TargetRequests{}
		}, false},
		{"what was never in doubt was not sent", kills.Misstated, kills.Once, inbox.EffectDone, func(_ *kills.Effect, h *kills.TargetRequests) { h.Complete = 0 }, true},
	} {
		effects := append([]kills.Effect(nil), r.Effects...)
		heard := maps.Clone(r.Requests)
		certain := maps.Clone(r.NeverInDoubt)
		hit := false
		for i := range effects {
			if effects[i].Route == m.route && effects[i].State == m.state && !hit {
				h := heard[effects[i].Event]
				m.damage(&effects[i], &h)
				if m.certain {
					certain[effects[i].Event] = true
				}
				heard[effects[i].Event] = h
				hit = true
			}
		}
		if found := kills.Check(r.Sent, certain, effects, heard); !hit || rig.CountKind(found, m.want) == 0 {
			t.Errorf("%s: not noticed as %s; found %v", m.name, m.want, found)
		}
	}
}
