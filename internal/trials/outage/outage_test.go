package outage_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/internal/trials/outage"
)

var (
	cycles = flag.Int("cycles", 0, "outages; 0 runs none")
	seed   = flag.Uint64("seed", 0, "0 draws one")
	always = flag.Bool("always", false, "every delivery goes through the buffer")
	fault  = flag.String("fault", "", "the only fault of the database: killed, frozen, cut off or promoted")
)

// TestOutage needs the distribution's nats-server: ./scripts/outage runs it.
func TestOutage(t *testing.T) { //nolint:paralleltest // it needs the machine for itself
	if *cycles == 0 {
		return // ./scripts/outage was not asked for
	}
	*seed = rig.DrawSeed(*seed)
	if *fault != "" && !slices.Contains(outage.Faults(), *fault) {
		t.Fatalf("-fault: want one of %q", outage.Faults())
	}
	t.Logf("seed %d", *seed)
	world := lab.TestWorld(t, lab.WorldConfig{Postgres: devpg.Config{Settings: map[string]string{"max_connections": "120", "wal_keep_size": "512MB"}}})
	v, err := outage.Run(lab.TestContext(t), world, outage.Options{Cycles: *cycles, Seed: *seed, Always: *always, Fault: *fault, Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(v.Summary())
	for _, line := range rig.List(outage.Check(v)) {
		t.Error(line)
	}
	if v.Buffered < 10**cycles {
		t.Errorf("too little was buffered to prove anything: %d", v.Buffered)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	t.Parallel()
	right := func() *outage.Evidence {
		return &outage.Evidence{
			Deliveries: []outage.Delivery{{1, 1, 200, false, false}, {1, 2, 503, true, false}, {1, 2, 200, false, false}, {2, 1, 0, false, true}, {2, 1, 200, true, false}},
			Applied:    []outage.Applied{{1, 1}, {2, 1}, {1, 2}},
		}
	}
	if found := outage.Check(right()); len(found) > 0 {
		t.Fatalf("nothing is wrong with the undamaged evidence, and it says: %v", rig.List(found))
	}
	for damage, exhibit := range map[string]struct {
		damage func(v *outage.Evidence)
		want   rig.Kind
	}{
		"one is missing":             {func(v *outage.Evidence) { v.Applied = v.Applied[1:] }, outage.Lost},
		"one is there twice":         {func(v *outage.Evidence) { v.Applied = append(v.Applied, v.Applied[2]) }, outage.Doubled},
		"one was never sent":         {func(v *outage.Evidence) { v.Applied[2].Number = 9 }, outage.Invented},
		"two change places":          {func(v *outage.Evidence) { v.Applied[0], v.Applied[2] = v.Applied[2], v.Applied[0] }, outage.Unordered},
		"one was refused for nobody": {func(v *outage.Evidence) { v.Deliveries[1].Excused = false }, outage.Refused},
	} {
		v := right()
		exhibit.damage(v)
		if found := outage.Check(v); rig.CountKind(found, exhibit.want) == 0 {
			t.Errorf("%s: not noticed as %s: %v", damage, exhibit.want, rig.List(found))
		}
	}
}
