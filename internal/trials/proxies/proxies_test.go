package proxies_test

import (
	"crypto/sha256"
	"flag"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/internal/trials/proxies"
)

var (
	name  = flag.String("proxy", "", "run the campaign with this proxy: nginx, caddy or haproxy")
	wrong = flag.String("wrong", "", "break the shipped file, which the campaign must notice: body-limit")
	again = flag.Bool("repeat", false, "have nginx send a delivery to the other receiver if the connection breaks")
	seed  = flag.Uint64("seed", 0, "0 draws one")
)

// TestProxies needs the distribution's proxies: ./scripts/proxies runs it.
func TestProxies(t *testing.T) {
	t.Parallel()
	if *name == "" {
		return // ./scripts/proxies was not asked for
	}
	url, schema := inboxtest.EmptySchema(t)
	v, err := proxies.Run(lab.TestContext(t), proxies.Options{
		Proxy: *name, Wrong: *wrong, Repeat: *again, Seed: rig.DrawSeed(*seed), URL: url, Schema: schema, Dir: t.TempDir(), Progress: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s (%s): %d probes, %d deliveries, %d events recorded", *name, proxies.Version(t.Context(), *name), len(v.Probes), len(v.Deliveries), len(v.Events))
	for _, p := range v.Phases {
		t.Logf("%s: %d deliveries, no 2xx at first: %v", p.Name, p.Deliveries, p.Failed)
	}
	for _, line := range rig.List(proxies.Check(v)) {
		t.Error(line)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	t.Parallel()
	right := func() *proxies.Evidence {
		a, b := sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))
		return &proxies.Evidence{
			Probes: []proxies.Probe{{Name: "a push", Want: "200", Got: "200"}},
			Phases: []proxies.Phase{
				{Name: "nothing", Deliveries: 1, Failed: map[string]int{}},
				{Name: "receiver 1 is killed and started", Deliveries: 2, Failed: map[string]int{"502": 1}},
			},
			// The second was repeated, and the third never got through.
			Deliveries: map[string]*proxies.Delivery{"1": {SHA: a, Acknowledged: 1, Recorded: 1}, "2": {SHA: b, Acknowledged: 1}, "3": {SHA: b}},
			Events:     []proxies.Event{{ID: "1", SHA: a[:]}, {ID: "2", SHA: b[:]}},
			Applied:    map[string]int{"1": 1, "2": 1},
		}
	}
	if found := proxies.Check(right()); len(found) > 0 {
		t.Fatalf("nothing is wrong with the undamaged evidence, and it says: %v", rig.List(found))
	}
	for damage, exhibit := range map[string]struct {
		damage func(v *proxies.Evidence)
		want   rig.Kind
	}{
		"an event is missing":               {func(v *proxies.Evidence) { v.Events = v.Events[1:] }, proxies.Lost},
		"an effect is missing":              {func(v *proxies.Evidence) { delete(v.Applied, "2") }, proxies.Lost},
		"an event is there twice":           {func(v *proxies.Evidence) { v.Events = append(v.Events, v.Events[0]) }, proxies.Doubled},
		"an effect happened twice":          {func(v *proxies.Evidence) { v.Applied["1"] = 2 }, proxies.Doubled},
		"an event was called new twice":     {func(v *proxies.Evidence) { v.Deliveries["1"].Recorded = 2 }, proxies.Doubled},
		"a body is another one":             {func(v *proxies.Evidence) { v.Events[0].SHA = v.Events[1].SHA }, proxies.Altered},
		"an event was never sent":           {func(v *proxies.Evidence) { v.Events = append(v.Events, proxies.Event{ID: "9"}) }, proxies.Invented},
		"a delivery was refused":            {func(v *proxies.Evidence) { v.Deliveries["2"].Refused = 1 }, proxies.Refused},
		"an answer is another one":          {func(v *proxies.Evidence) { v.Probes[0].Got = "413" }, proxies.Answered},
		"a delivery failed without a fault": {func(v *proxies.Evidence) { v.Phases[0].Failed["502"] = 1 }, proxies.Calm},
	} {
		v := right()
		exhibit.damage(v)
		if found := proxies.Check(v); rig.CountKind(found, exhibit.want) == 0 {
			t.Errorf("%s: not noticed as %s: %v", damage, exhibit.want, rig.List(found))
		}
	}
}
