package brokers_test

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/broker/faulttest"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/brokers"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

var (
	name   = flag.String("broker", "", "run the campaign with this broker: nats or rabbitmq")
	cycles = flag.Int("cycles", 30, "kills")
	seed   = flag.Uint64("seed", 0, "0 draws one")
	suites = flag.Bool("suites", false, "run the suites of publishers and consumers against RabbitMQ")
)

// TestBrokers needs the distribution's brokers: ./scripts/brokers runs it.
func TestBrokers(t *testing.T) {
	t.Parallel()
	if *name == "" {
		return // ./scripts/brokers was not asked for
	}
	url, schema := inboxtest.EmptySchema(t)
	v, err := brokers.Run(lab.TestContext(t), brokers.Options{
		Broker: *name, Cycles: *cycles, Seed: rig.DrawSeed(*seed), URL: url, Schema: schema, Dir: t.TempDir(), Progress: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d kills %v; %d deliveries acknowledged, %d messages published, of which the broker stored %d twice; %d applied",
		*name, *cycles, v.Kills, len(v.Acknowledged), v.Published, brokers.Repeated(v), len(v.Applied))
	for _, line := range rig.List(brokers.Check(v)) {
		t.Error(line)
	}
}

// TestSuitesOfRabbitMQ runs the tests that use a server of RabbitMQ where there is one.
func TestSuitesOfRabbitMQ(t *testing.T) {
	t.Parallel()
	if !*suites {
		return // ./scripts/brokers was not asked for
	}
	if brokers.MaxMessage != faulttest.MaxMessage {
		t.Fatalf("the server takes messages of %d bytes, and the suites expect %d", brokers.MaxMessage, faulttest.MaxMessage)
	}
	ctx := lab.TestContext(t)
	url, end, err := brokers.ServeRabbitMQ(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "../../broker", "../../../jobs/effect/publish", "-run", "Consumer|Publish|Messages", "-v")
	test.Env = append(os.Environ(), "ONCEGATE_TEST_RABBITMQ="+url)
	out, err := test.CombinedOutput()
	passed := 0
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "--- FAIL") || strings.Contains(line, "_test.go:") || strings.Contains(line, "suite.go:") {
			t.Log(strings.TrimRight(line, "\n"))
		}
		if strings.Contains(line, "--- PASS") && (strings.Contains(line, "amqp") || strings.Contains(line, "rabbitmq")) {
			passed++
		}
	}
	if err != nil || passed == 0 {
		t.Fatalf("%v; %d tests with RabbitMQ passed", err, passed)
	}
	t.Logf("%d tests with RabbitMQ passed", passed)
}

func TestDamageIsNoticed(t *testing.T) {
	t.Parallel()
	right := func() *brokers.Evidence {
		return &brokers.Evidence{
			Acknowledged: map[string]string{"1": "c1", "2": "c2", "21": "c1", "41": "c1"}, Published: 4, Messages: []string{"a", "b", "b", "c", "d"},
			Applied: []brokers.Applied{{"1", "c1"}, {"21", "c1"}, {"2", "c2"}, {"41", "c1"}},
		}
	}
	if found := brokers.Check(right()); len(found) > 0 || brokers.Repeated(right()) != 1 {
		t.Fatalf("nothing is wrong with the undamaged evidence, and it says: %v; %d repeated", rig.List(found), brokers.Repeated(right()))
	}
	for damage, exhibit := range map[string]struct {
		damage func(v *brokers.Evidence)
		want   rig.Kind
	}{
		"one is missing":        {func(v *brokers.Evidence) { v.Applied = v.Applied[1:] }, brokers.Lost},
		"one is there twice":    {func(v *brokers.Evidence) { v.Applied = append(v.Applied, v.Applied[3]) }, brokers.Doubled},
		"one was never sent":    {func(v *brokers.Evidence) { v.Applied[0].Number = "9" }, brokers.Invented},
		"one has a new owner":   {func(v *brokers.Evidence) { v.Applied[0].Customer = "c2" }, brokers.Invented},
		"two change places":     {func(v *brokers.Evidence) { v.Applied[1], v.Applied[3] = v.Applied[3], v.Applied[1] }, brokers.Unordered},
		"one was not published": {func(v *brokers.Evidence) { v.Unfinished = 1 }, brokers.Unfinished},
	} {
		v := right()
		exhibit.damage(v)
		if found := brokers.Check(v); rig.CountKind(found, exhibit.want) == 0 {
			t.Errorf("%s: not noticed as %s: %v", damage, exhibit.want, rig.List(found))
		}
	}
}
