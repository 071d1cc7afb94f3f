package kills_test

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/ledger"
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
	world := lab.TestWorld(t, kills.World)
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
	type effect = invariant.Effect
	type requests = ledger.Requests
	for _, m := range []struct {
		name   string
		want   rig.Kind
		route  kills.Route
		state  inbox.EffectState
		damage func(*effect, *requests, *kills.Evidence)
	}{
		{"an effect in the database happens twice", invariant.ExactlyOnce, kills.Table, inbox.EffectDone, func(e *effect, _ *requests, all *kills.Evidence) {
			all.Applied = append(all.Applied, invariant.Applied{Route: e.Route, Event: e.Event})
		}},
		{"a lease is ended early", kills.Early, kills.Once, inbox.EffectDone, func(e *effect, _ *requests, all *kills.Evidence) { all.Early = []string{e.Event} }},
		{"an effect is never finished", invariant.Settled, kills.Idempotent, inbox.EffectDone, func(e *effect, _ *requests, _ *kills.Evidence) {
			e.State = string(inbox.EffectRetry)
		}},
		{"a message is sent twice", invariant.AtMostOnce, kills.Mail, inbox.EffectDone, func(_ *effect, got *requests, _ *kills.Evidence) { got.Complete, got.Answered = 2, 2 }},
		{"a message has two ids", invariant.OneKey, kills.Mail, inbox.EffectDone, func(_ *effect, got *requests, _ *kills.Evidence) { got.Keys["other"]++ }},
		{"an uncertain message is called done", invariant.AtMostOnce, kills.Mail, inbox.EffectIndeterminate, func(e *effect, got *requests, _ *kills.Evidence) {
			e.State, got.Complete, got.Answered = string(inbox.EffectDone), 1, 0
		}},
		{"what never arrived is called done", invariant.AtMostOnce, kills.Once, inbox.EffectDone, func(_ *effect, got *requests, _ *kills.Evidence) { *got = requests{} }},
		{"a given-up effect at a target that deduplicates", invariant.Settled, kills.Idempotent, inbox.EffectDone, func(e *effect, _ *requests, _ *kills.Evidence) {
			e.State = string(inbox.EffectDead)
		}},
		{"what was never in doubt is indeterminate", kills.Misstated, kills.Once, inbox.EffectIndeterminate, func(e *effect, _ *requests, all *kills.Evidence) {
			all.NeverInDoubt[e.Event] = true
		}},
		{"a message that the target took is indeterminate", kills.Unexplained, kills.Once, inbox.EffectDone, func(e *effect, _ *requests, _ *kills.Evidence) {
			e.State, e.Reason = string(inbox.EffectIndeterminate), reasons.Connection
		}},
		{"a timeout that nobody waited for", kills.Unexplained, kills.Once, inbox.EffectDone, func(e *effect, _ *requests, _ *kills.Evidence) {
			e.State, e.Reason = string(inbox.EffectIndeterminate), reasons.Timeout
		}},
		{"workers that wait for every answer in vain", kills.Unexplained, kills.Once, inbox.EffectDone, func(_ *effect, _ *requests, all *kills.Evidence) {
			for i := range all.Effects {
				if e := &all.Effects[i]; e.Route == string(kills.Once) && e.State == string(inbox.EffectDone) {
					e.State, e.Reason, all.Waited = string(inbox.EffectIndeterminate), reasons.Timeout, append(all.Waited, e.Event)
				}
			}
		}},
		{"a refusal that precedes the work is indeterminate", kills.Unexplained, kills.Once, inbox.EffectIndeterminate, func(e *effect, _ *requests, _ *kills.Evidence) {
			e.Reason = reasons.Status429
		}},
		{"a duplicate happens too", invariant.OneOwner, kills.Once, inbox.EffectDuplicate, func(_ *effect, got *requests, _ *kills.Evidence) { got.Complete, got.Answered = 1, 1 }},
		{"a duplicate is done in the database", invariant.OneOwner, kills.Table, inbox.EffectDuplicate, func(e *effect, _ *requests, _ *kills.Evidence) {
			e.State = string(inbox.EffectDone)
		}},
		{"two events wait for each other", invariant.OneOwner, kills.Once, inbox.EffectDone, func(e *effect, _ *requests, _ *kills.Evidence) {
			e.State = string(inbox.EffectDuplicate)
		}},
		{"what was never in doubt was not sent", kills.Misstated, kills.Once, inbox.EffectDone, func(e *effect, got *requests, all *kills.Evidence) {
			got.Complete, all.NeverInDoubt[e.Event] = 0, true
		}},
		{"a request is sent twice in one attempt", kills.Resent, kills.Once, inbox.EffectDone, func(_ *effect, got *requests, _ *kills.Evidence) { got.Attempts["1"] = 2 }},
	} {
		damaged := *r.Evidence
		damaged.Effects, damaged.NeverInDoubt = slices.Clone(damaged.Effects), maps.Clone(damaged.NeverInDoubt)
		all := maps.Clone(damaged.Routes[0].Requests)
		damaged.Routes = slices.Clone(damaged.Routes)
		for i := range damaged.Routes {
			damaged.Routes[i].Requests = all
		}
		hit := slices.IndexFunc(damaged.Effects, func(e effect) bool { return e.Route == string(m.route) && e.State == string(m.state) })
		if hit < 0 {
			t.Errorf("%s: no effect is %s on route %s", m.name, m.state, m.route)
			continue
		}
		event := damaged.Effects[hit].Event
		got := all[event].Clone()
		m.damage(&damaged.Effects[hit], &got, &damaged)
		all[event] = got
		if found := kills.Check(&damaged); rig.CountKind(found, m.want) == 0 {
			t.Errorf("%s: not noticed as %s; found %v", m.name, m.want, found)
		}
	}
}
