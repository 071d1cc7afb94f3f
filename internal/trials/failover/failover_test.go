package failover_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/failover"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

var (
	synchronous  = flag.Int("synchronous", 1, "failovers to a synchronous standby")
	asynchronous = flag.Int("asynchronous", 1, "failovers to an asynchronous standby")
	seed         = flag.Uint64("seed", 0, "of the order of faults; 0 draws one")
	fault        = flag.String("fault", "", "the only fault to make: "+fmt.Sprint(failover.Faults()))
	wrong        = flag.String("wrong", "", "run a binary with a mistake, which has to be noticed: unfenced or work-unreceived")
)

func TestFailover(t *testing.T) { //nolint:paralleltest // it needs the machine for itself
	*seed = rig.DrawSeed(*seed)
	t.Logf("seed %d", *seed)
	for _, c := range []struct { //nolint:paralleltest // as above
		name        string
		cycles      int
		synchronous bool
	}{{"synchronous", *synchronous, true}, {"asynchronous", *asynchronous, false}} {
		if c.cycles == 0 || *wrong != "" && c.synchronous {
			continue
		}
		if *wrong != "" && *fault == "" {
			*fault = string(failover.Thaw) // both primaries take writes at once
		}
		t.Run(c.name, func(t *testing.T) {
			world := lab.TestWorld(t, lab.WorldConfig{
				Failpoints: *wrong != "",
				Postgres:   devpg.Config{Volatile: true, Settings: map[string]string{"max_connections": "120", "wal_keep_size": "256MB"}},
			})
			result, err := failover.Run(lab.TestContext(t), world, failover.Options{
				Cycles: c.cycles, Seed: *seed, Synchronous: c.synchronous, Wrong: *wrong, Fault: failover.Fault(*fault), Progress: t.Logf,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(result.Summary.String())
			if *wrong != "" {
				if rig.CountKind(result.Violations, invariant.AtMostOnce) == 0 {
					t.Error("not noticed: nothing happened twice")
				}
				t.Logf("noticed: %d effects happened twice at a target that cannot deduplicate", result.Summary.Doubled)
				return
			}
			for _, line := range rig.List(result.Violations) {
				t.Error(line)
			}
			if s := result.Summary; s.Acked < 50*c.cycles || s.Once == 0 {
				t.Errorf("too little happened to prove anything: %s", s.String())
			}
		})
	}
}

// TestRecoveryToAPointInTime repeats nothing at a target that cannot deduplicate, although no process remembers what happened.
func TestRecoveryToAPointInTime(t *testing.T) { //nolint:paralleltest // as above
	if *wrong != "" {
		t.Skip("it is about what the fence leaves")
	}
	world := lab.TestWorld(t, lab.WorldConfig{Postgres: devpg.Config{Volatile: true, Settings: map[string]string{"wal_keep_size": "256MB"}}})
	const events = 3
	got, err := failover.RunRecovery(lab.TestContext(t), world, events)
	if err != nil {
		t.Fatal(err)
	}
	if want := (failover.Recovery{Sent: events, Restored: events, Later: 1}); *got != want {
		t.Errorf("the recovery left %+v, want %+v", *got, want)
	}
}
