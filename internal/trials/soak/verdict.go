package soak

import (
	"fmt"
	"strings"
	"time"
)

// Sample is what was measured at one time, by the names of [Figures].
type Sample struct {
	At     time.Duration
	Values map[string]float64
}

// Figure is something that is measured. While it is judged, it may grow by MaxGrowth, by MaxRatio of its mean or by
// MaxPerMinute, whichever is the most.
type Figure struct {
	Name, Unit                        string
	MaxGrowth, MaxRatio, MaxPerMinute float64
}

const mib = 1 << 20

// figures lists the figures with their limits. A leak of 64 bytes a delivery is 16 MiB in the 15 minutes that are judged by default, at 300 deliveries a second.
// Tables that are pruned are as large as their live rows need, so they must not grow once the first rows have gone. In
// tables that are kept, a row must not take more and more space.
var figures = []Figure{
	{Name: "rss", Unit: "MiB", MaxGrowth: 12, MaxRatio: 0.1},
	{Name: "heap", Unit: "MiB", MaxGrowth: 12, MaxRatio: 0.2},
	{Name: "goroutines", Unit: "", MaxGrowth: 20, MaxRatio: 0.1},
	{Name: "files", Unit: "", MaxGrowth: 10},
	{Name: "connections", Unit: "", MaxGrowth: 5},
	{Name: "log", Unit: "KiB", MaxPerMinute: 100},
	{Name: "inbox_event a row", Unit: "B", MaxRatio: 0.15},
	{Name: "inbox_event indexes a row", Unit: "B", MaxRatio: 0.2},
	{Name: "inbox_body a row", Unit: "B", MaxRatio: 0.15},
	{Name: "effect", Unit: "MiB", MaxGrowth: 16, MaxRatio: 0.2},
	{Name: "effect_attempt", Unit: "MiB", MaxGrowth: 16, MaxRatio: 0.2},
	{Name: "river_job", Unit: "MiB", MaxGrowth: 32, MaxRatio: 0.2},
	{Name: "unsettled", Unit: "effects", MaxGrowth: 600},
	{Name: "latency p50", Unit: "ms", MaxGrowth: 5, MaxRatio: 0.5},
	{Name: "latency p99", Unit: "ms", MaxGrowth: 100, MaxRatio: 1},
}

// Figures returns the figures that are measured, with the growth that each is allowed.
func Figures() []Figure { return figures }

// Trend is how one figure developed.
type Trend struct {
	Figure

	First, Mean, Last float64

	// Slope is the growth a minute, plus or minus Margin with a confidence of about 95 %.
	Slope, Margin float64

	// Grown is the slope times the time that is judged, and Allowed the largest growth that passes.
	Grown, Allowed float64

	// Missing says that there were too few samples. Fails says that even the smallest growth within the margin is more
	// than is allowed.
	Missing, Fails bool
}

// Judge fits a line through each figure's samples after the warm-up.
func Judge(samples []Sample, warmUp time.Duration) []Trend {
	out := make([]Trend, 0, len(figures))
	for _, f := range figures {
		var points []point
		for _, s := range samples {
			if v, ok := s.Values[f.Name]; ok && s.At >= warmUp {
				points = append(points, point{seconds: s.At.Seconds(), value: v})
			}
		}
		t := Trend{Figure: f}
		l, ok := fit(points)
		if !ok {
			t.Missing, t.Fails = true, true
			out = append(out, t)
			continue
		}
		length := points[len(points)-1].seconds - points[0].seconds
		t.First, t.Mean, t.Last = points[0].value, l.mean, points[len(points)-1].value
		t.Slope, t.Margin, t.Grown = l.slope*60, l.margin*60, l.slope*length
		t.Allowed = max(f.MaxGrowth, f.MaxRatio*l.mean, f.MaxPerMinute*length/60)
		t.Fails = (l.slope-l.margin)*length > t.Allowed
		out = append(out, t)
	}
	return out
}

// Table formats the trends as a table.
func Table(trends []Trend) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-26s %-8s %10s %10s %10s %22s %10s %10s\n", "FIGURE", "UNIT", "FIRST", "MEAN", "LAST", "SLOPE A MINUTE", "GROWN", "ALLOWED")
	for i := range trends {
		t := &trends[i]
		if t.Missing {
			fmt.Fprintf(&b, "%-26s %-8s too few samples: FAILS\n", t.Name, t.Unit)
			continue
		}
		fmt.Fprintf(&b, "%-26s %-8s %10.1f %10.1f %10.1f %22s %10.1f %10.1f", t.Name, t.Unit, t.First, t.Mean, t.Last,
			fmt.Sprintf("%.2f ± %.2f", t.Slope, t.Margin), t.Grown, t.Allowed)
		if t.Fails {
			b.WriteString("  FAILS")
		}
		b.WriteString("\n")
	}
	return b.String()
}
