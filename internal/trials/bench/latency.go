package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The rates of the benchmark of latencies, in deliveries a second: a process that is idle in between, and a busy hour.
const (
	idleRate = 5
	busyRate = 1000
)

// latencyReport is the result of the benchmark of latencies.
type latencyReport struct {
	reportRun
	Rounds    int         `json:"rounds"`
	Latencies []latencies `json:"latencies"`
	Ratios    []ratio     `json:"ratios"`
}

// latencies are the quantiles of one measurement, in milliseconds, round by round.
type latencies struct {
	What string    `json:"what"`
	Rate float64   `json:"rate"`
	P50  []float64 `json:"p50_ms"`
	P99  []float64 `json:"p99_ms"`
}

func (l *latencies) add(o *outcome) {
	l.P50, l.P99 = append(l.P50, o.quantile(.5)), append(l.P99, o.quantile(.99))
}

// arrivals are the times at which a target got the first byte of each event.
type arrivals struct {
	mu sync.Mutex
	at map[string]time.Time
}

// ServeHTTP implements [http.Handler].
func (a *arrivals) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(r.Body)
	if i := bytes.Index(body, []byte("evt_")); err == nil && i >= 0 && len(body) >= i+idLength {
		a.mu.Lock()
		a.at[string(body[i:i+idLength])] = at
		a.mu.Unlock()
	}
}

// since returns how long after its acknowledgement each event reached the target. A target may have it before the sender has
// read the acknowledgement; that counts as 0. It waits for events that have not arrived.
func (a *arrivals) since(ctx context.Context, spans []timeSpan) (*outcome, error) {
	out := &outcome{}
	err := rig.Until(ctx, time.Minute, "the effects to arrive", func() (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		out.latencies = out.latencies[:0]
		for _, s := range spans {
			at, ok := a.at[s.event]
			if !ok {
				return false, nil
			}
			out.latencies = append(out.latencies, max(at.Sub(s.begun.Add(s.took)), 0))
		}
		return true, nil
	})
	slices.Sort(out.latencies)
	return out, err
}

// measureLatency measures the time from a delivery to its acknowledgement, and from there to the first byte at the target. It
// compares them with commits of one row at the same rate.
func measureLatency(ctx context.Context, args []string) error {
	rounds, quick := 3, false
	var format output
	flags := flag.NewFlagSet("bench latency", flag.ContinueOnError)
	flags.BoolVar(&quick, "quick", false, "one round of short measurements")
	flags.Var(&format, "output", "table or json")
	flags.IntVar(&rounds, "rounds", rounds, "how often everything is measured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if rounds < 1 || flags.NArg() > 0 {
		return errors.New("--rounds is at least 1, and there are no arguments")
	}
	idle, busy := 20*time.Second, 5*time.Second
	if quick {
		rounds, idle, busy = 1, 4*time.Second, 2*time.Second
	}
	return onTestbed(ctx, format, func(s *testbed) (report, error) {
		return latenciesOf(ctx, s, rounds, idle, busy)
	})
}

func latenciesOf(ctx context.Context, s *testbed, rounds int, idle, busy time.Duration) (*latencyReport, error) {
	b := &receiveBench{testbed: s, options: options{}}
	if err := b.pgbenchTable(ctx); err != nil {
		return nil, err
	}
	reached := &arrivals{at: map[string]time.Time{}}
	target, err := rig.StartTarget(reached)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	config, err := s.WriteFile("oncegate.yml", fmt.Sprintf(drainConfiguration, fmt.Sprintf("{ kind: forward, url: \"http://%s/\", idempotent: true }", target.Address), "it"))
	if err != nil {
		return nil, err
	}
	node, err := s.serve(ctx, config, "")
	if err != nil {
		return nil, err
	}
	r := &latencyReport{Rounds: rounds, Latencies: []latencies{
		{What: "pgbench, one 2 KB row a commit", Rate: busyRate},
		{What: "acknowledgement", Rate: busyRate}, {What: "from acknowledgement to the target's first byte", Rate: busyRate},
		{What: "acknowledgement", Rate: idleRate}, {What: "from acknowledgement to the target's first byte", Rate: idleRate},
	}}
	for round := range rounds {
		commits, err := b.pgbench(ctx, 16, busyRate, busy, func() {}, func() {})
		if err != nil {
			return nil, err
		}
		r.Latencies[0].add(commits)
		for i, w := range []workload{
			{rate: busyRate, measured: busy, connections: openConnections}, {rate: idleRate, measured: idle, connections: 4},
		} {
			w.kind, w.bodySize, w.warmUp, w.spans = onlyNew, bodySize, 500*time.Millisecond, true
			b.runs++
			acked, err := generate(ctx, node.Public, b.runs, w, func() {}, func() {})
			if err != nil {
				return nil, err
			}
			effects, err := reached.since(ctx, acked.spans)
			if err != nil {
				return nil, err
			}
			r.Latencies[1+2*i].add(acked)
			r.Latencies[2+2*i].add(effects)
		}
		progress("round %d of %d", round+1, rounds)
	}
	r.compare()
	return r, nil
}

func (r *latencyReport) compare() {
	bare, acked := &r.Latencies[0], &r.Latencies[1]
	ones := make([]float64, r.Rounds)
	for i := range ones {
		ones[i] = 1
	}
	for _, c := range []struct {
		what         string
		above, below []float64
		atMost       float64
	}{
		{"acknowledgement / commit at 1,000/s, p50", acked.P50, bare.P50, 2},
		{"acknowledgement / commit at 1,000/s, p99", acked.P99, bare.P99, 1.5},
		{"ms to the first byte at 1,000/s, p50", r.Latencies[2].P50, ones, 10},
		{"ms to the first byte when idle, p50", r.Latencies[4].P50, ones, 3},
	} {
		if out, ok := newRatio(c.what, c.above, c.below, 0, c.atMost); ok {
			r.Ratios = append(r.Ratios, out)
		}
	}
}

func (r *latencyReport) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "\n%d round(s); medians over the rounds. One process receives and works. Bodies of 2 KiB, HMAC-SHA256, keep-alive.\n", r.Rounds)
	fmt.Fprintf(w, "%s The generator and the target share the machine.\n\n", r.server())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\ta second\tp50 ms\tp99 ms\t\n")
	for _, l := range r.Latencies {
		fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.2f\t\n", l.What, l.Rate, median(l.P50), median(l.P99))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return writeRatios(w, r.Ratios)
}
