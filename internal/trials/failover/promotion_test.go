package failover_test

import (
	"flag"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/failover"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

var (
	promotions = flag.Int("promotions", 0, "promotions of one of two standbys")
	durability = flag.String("durability", "quorum", "database.durability in them: local, server, quorum or apply")
	through    = flag.String("through", "hosts", "how the processes reach the primary in them: hosts or haproxy")
)

// TestPromotions loses nothing that was acknowledged under quorum, whatever happens to the primary. Under local it counts.
func TestPromotions(t *testing.T) { //nolint:paralleltest // it needs the machine for itself
	if *promotions == 0 || *wrong != "" {
		t.Skip("-promotions N asks for it")
	}
	o := failover.PromotionOptions{Promotions: *promotions, Seed: rig.DrawSeed(*seed), Durability: *durability, Progress: t.Logf}
	if *through == "haproxy" {
		var err error
		if o.HAProxy, err = exec.LookPath("haproxy"); err != nil {
			t.Fatal("there is no haproxy on PATH: install your distribution's package haproxy")
		}
	}
	t.Logf("seed %d", o.Seed)
	world := lab.TestWorld(t, lab.WorldConfig{
		Postgres: devpg.Config{Volatile: true, Settings: map[string]string{"max_connections": "150", "wal_keep_size": "512MB"}},
	})
	result, err := failover.RunPromotions(lab.TestContext(t), world, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(result.Summary.String())
	var pauses []time.Duration
	for _, some := range result.Summary.Pauses {
		pauses = append(pauses, some...)
	}
	slices.Sort(pauses)
	t.Logf("durability %s through %s: %d promotions, lost %d of %d acknowledged, pause median %.1f s, most %.1f s",
		o.Durability, *through, result.Summary.Cycles, result.Summary.Lost, result.Summary.Acked, pauses[len(pauses)/2].Seconds(), pauses[len(pauses)-1].Seconds())
	for _, line := range rig.List(result.Violations) {
		t.Error(line)
	}
	if o.Durability != "local" && result.Summary.Lost > 0 {
		t.Errorf("%d acknowledged events were lost", result.Summary.Lost)
	}
	if s := result.Summary; s.Acked < 50*o.Promotions || s.Once == 0 {
		t.Errorf("too little happened to prove anything: %s", s.String())
	}
}
