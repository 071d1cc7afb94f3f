package calls_test

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/calls"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

var (
	storms = flag.Int("storms", 1, "calls that are made by a hundred callers at once")
	steps  = flag.Int("steps", 120, "random steps of the actors")
	seed   = flag.Uint64("seed", 0, "decides what the actors and the targets do; 0 draws one")
)

func TestCalls(t *testing.T) { //nolint:paralleltest // it needs the machine for itself
	world := lab.TestWorld(t, calls.World)
	o := calls.Options{Storms: *storms, Steps: *steps, Seed: rig.DrawSeed(*seed), Progress: t.Logf}
	evidence, err := calls.Run(lab.TestContext(t), world, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range slices.Sorted(maps.Keys(evidence.Counts)) {
		t.Logf("%6d %s", evidence.Counts[what], what)
	}
	violations := calls.Check(evidence)
	t.Logf("%d calls, %d violations, seed %d", len(evidence.Calls), len(violations), o.Seed)
	for _, line := range rig.List(violations) {
		t.Error(line)
	}
	if t.Failed() {
		return
	}
	// A check that has never been seen to fail proves nothing. The nodes are told that a target deduplicates which does not.
	o.Storms, o.Steps, o.Defect, o.Progress = 0, 100, calls.RepeatOnce, nil
	doubled, err := calls.Run(lab.TestContext(t), world, o)
	if err != nil {
		t.Fatal(err)
	}
	if rig.CountKind(calls.Check(doubled), calls.Doubled) == 0 {
		t.Error("calls that happened twice were not noticed")
	}
	for name, d := range damages {
		damaged := copied(evidence)
		if !d.damage(damaged) {
			t.Errorf("%s: there is nothing to damage: too little happened to prove anything", name)
		} else if rig.CountKind(calls.Check(damaged), d.kind) == 0 {
			t.Errorf("%s: not noticed as %s", name, d.kind)
		}
	}
}
