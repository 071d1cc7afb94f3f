package soak_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/internal/trials/soak"
)

var (
	length    = flag.Duration("length", 0, "how long deliveries are made; 0 is a run of some seconds, without a verdict")
	warmUp    = flag.Duration("warm-up", 0, "how much of that is not judged; 0 is a quarter")
	rate      = flag.Int("rate", 300, "deliveries a second")
	memory    = flag.String("memory", "256MiB", "GOMEMLIMIT of the binary")
	logEvents = flag.String("log-events", "", "log.events of the binary; empty is its default")
	leak      = flag.Int("leak", 0, "bytes that the binary loses with each delivery: a fault that the verdict must notice")
)

// local refuses a database on another machine.
func local(t *testing.T, address string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("TEST_DATABASE_URL is no address")
	}
	if host := u.Hostname(); host != "" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		t.Fatalf("the database is on %s: a soak talks to this machine only", host)
	}
}

func TestSoak(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, o soak.Options) *soak.Report {
		t.Helper()
		o.URL, o.Schema = inboxtest.EmptySchema(t)
		local(t, o.URL)
		o.Dir, o.Progress = t.TempDir(), t.Logf
		report, err := soak.Run(lab.TestContext(t), o)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if *length > 0 {
		report := run(t, soak.Options{Length: *length, WarmUp: *warmUp, Rate: *rate, MemoryLimit: *memory, LogEvents: *logEvents, Leak: *leak})
		verdict, err := report.Verdict()
		t.Logf("%s after %s of warm-up:\n%s", *length, *warmUp, soak.Table(report.Trends))
		if err != nil {
			t.Errorf("%s\n%v", verdict, err)
			return
		}
		t.Log(verdict)
		return
	}
	// Some seconds are too short for a verdict, and this machine is busy with other tests:
	// everything is measured, and a leak is seen.
	short := soak.Options{Length: 6 * time.Second, WarmUp: time.Second, Rate: 60}
	report := run(t, short)
	for i := range report.Trends {
		if report.Trends[i].Missing {
			t.Errorf("%s is not measured", report.Trends[i].Name)
		}
	}
	if c := report.Counts; c.Wrong > 0 || c.New == 0 || c.Duplicates == 0 || c.Conflicts == 0 || c.Refused == 0 || report.Forwarded < int64(c.New) {
		t.Errorf("%+v, %d forwarded: too little happened", c, report.Forwarded)
	}
	short.Leak = 1 << 20
	leaking := run(t, short)
	for i := range leaking.Trends {
		if name := leaking.Trends[i].Name; (name == "rss" || name == "heap") && !leaking.Trends[i].Fails {
			t.Errorf("a megabyte a delivery is not noticed in %s:\n%s", name, soak.Table(leaking.Trends))
		}
	}
	if _, err := leaking.Verdict(); err == nil || !strings.Contains(err.Error(), "rss grew by") {
		t.Errorf("the verdict does not say so: %v", err)
	}
}

// What is steady passes, however noisy it is; what grows is noticed, however slowly.
func TestJudge(t *testing.T) {
	t.Parallel()
	const minutes = 20
	series := func(name string, value func(at float64, noise *rand.Rand) float64) []soak.Sample {
		noise := rand.New(rand.NewPCG(1, 2))
		var out []soak.Sample
		for i := range minutes * 12 {
			at := time.Duration(i) * 5 * time.Second
			out = append(out, soak.Sample{At: at, Values: map[string]float64{name: value(at.Minutes(), noise)}})
		}
		return out
	}
	for name, c := range map[string]struct {
		figure string
		value  func(at float64, noise *rand.Rand) float64
		fails  bool
	}{
		"steady":                      {"rss", func(float64, *rand.Rand) float64 { return 90 }, false},
		"noisy":                       {"rss", func(_ float64, n *rand.Rand) float64 { return 90 + 15*n.NormFloat64() }, false},
		"a sawtooth":                  {"heap", func(at float64, _ *rand.Rand) float64 { return 40 + 30*math.Mod(at, 1.3) }, false},
		"a warm-up":                   {"rss", func(at float64, _ *rand.Rand) float64 { return 90 - 60*math.Exp(-at) }, false},
		"less and less":               {"rss", func(at float64, _ *rand.Rand) float64 { return 190 - 5*at }, false},
		"64 bytes a delivery":         {"rss", func(at float64, n *rand.Rand) float64 { return 90 + at*60*300*64/(1<<20) + n.NormFloat64() }, true},
		"a sawtooth that grows":       {"heap", func(at float64, _ *rand.Rand) float64 { return 40 + 30*math.Mod(at, 1.3) + 3*at }, true},
		"a goroutine every 20 s":      {"goroutines", func(at float64, n *rand.Rand) float64 { return 60 + 3*at + 2*n.NormFloat64() }, true},
		"a connection a minute":       {"connections", func(at float64, _ *rand.Rand) float64 { return 30 + math.Floor(at) }, true},
		"a log of 121 MB in 20 min":   {"log", func(at float64, _ *rand.Rand) float64 { return at * 6195 }, true},
		"a log of 1 MiB in 20 min":    {"log", func(at float64, _ *rand.Rand) float64 { return at * 51 }, false},
		"rows that become larger":     {"inbox_event a row", func(at float64, _ *rand.Rand) float64 { return 200 + 4*at }, true},
		"effects that are not worked": {"unsettled", func(at float64, n *rand.Rand) float64 { return 100*at + 50*n.Float64() }, true},
		"slower and slower":           {"latency p50", func(at float64, n *rand.Rand) float64 { return 4 + at + n.Float64() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, trend := range soak.Judge(series(c.figure, c.value), 5*time.Minute) {
				if trend.Name == c.figure && (trend.Fails != c.fails || trend.Missing) {
					t.Errorf("%+v", trend)
				}
				if trend.Name != c.figure && !trend.Missing {
					t.Errorf("%s was not measured, and is not missing", trend.Name)
				}
			}
		})
	}
}

// The line is that of the textbook: Anscombe's first set, with R's summary(lm(y ~ x)).
func TestTheSlopeIsThatOfLeastSquares(t *testing.T) {
	t.Parallel()
	x := []float64{10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5}
	y := []float64{8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68}
	var samples []soak.Sample
	for i := range x {
		samples = append(samples, soak.Sample{At: time.Duration(x[i]) * time.Minute, Values: map[string]float64{"rss": y[i]}})
	}
	for _, trend := range soak.Judge(samples, 0) {
		if trend.Name == "rss" && (math.Abs(trend.Slope-0.5001) > 0.0001 || math.Abs(trend.Margin-2.26*0.1179) > 0.001) {
			t.Errorf("%.4f ± %.4f, want 0.5001 ± %.4f", trend.Slope, trend.Margin, 2.26*0.1179)
		}
	}
}

func TestASoakThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []soak.Options{{Length: time.Second, WarmUp: time.Second}, {Length: -time.Second}, {Rate: -1}} {
		if _, err := soak.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the warm-up must be shorter") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
