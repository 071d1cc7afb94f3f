package main

import (
	"fmt"
	"slices"
	"time"
)

// The limits for good deliveries during an attack: their share of errors and the ratio of their p99 to the p99 of the
// quiet time must be below these.
const (
	maxErrorShare   = 0.01
	maxLatencyRatio = 2.0
)

// measurement is the outcome of the good deliveries of one time.
type measurement struct {
	sent, failed int
	firstError   string // the first failure
	latencies    []time.Duration
}

func (m *measurement) percentile(p int) time.Duration {
	if len(m.latencies) == 0 {
		return 0
	}
	slices.Sort(m.latencies)
	return m.latencies[min(len(m.latencies)*p/100, len(m.latencies)-1)]
}

// round is a quiet time and the attack after it.
type round struct{ quietResult, attackResult measurement }

// result is the outcome of an attack in all rounds.
type result struct {
	name        string
	connections int // the most that the attack made in a round
	rounds      []round
}

// latencyRatios returns, for each round, the p99 during the attack divided by the p99 of the quiet time before it,
// sorted.
func (r *result) latencyRatios() []float64 {
	var out []float64
	for i := range r.rounds {
		if quiet := r.rounds[i].quietResult.percentile(99); quiet > 0 {
			out = append(out, float64(r.rounds[i].attackResult.percentile(99))/float64(quiet))
		}
	}
	slices.Sort(out)
	return out
}

func (r *result) medianRatio() float64 {
	ratios := r.latencyRatios()
	if len(ratios) == 0 {
		return 0
	}
	return ratios[len(ratios)/2]
}

// errorShare returns the share of good deliveries that failed during the attack.
func (r *result) errorShare() (share float64, sent, failed int, first string) {
	for i := range r.rounds {
		m := &r.rounds[i].attackResult
		sent, failed = sent+m.sent, failed+m.failed
		if first == "" {
			first = m.firstError
		}
	}
	return float64(failed) / float64(max(sent, 1)), sent, failed, first
}

func (r *result) line() string {
	share, sent, failed, _ := r.errorShare()
	ratios := r.latencyRatios()
	if len(ratios) == 0 {
		return fmt.Sprintf("%-14s nothing was delivered", r.name)
	}
	last := &r.rounds[len(r.rounds)-1]
	return fmt.Sprintf("%-14s %6d connections  %5d good, %4d failed (%.2f %%)  p50 %5.1f ms  p99 %6.1f ms (quiet %.1f ms)  p99 to quiet %.2f (%.2f to %.2f)",
		r.name, r.connections, sent, failed, 100*share, ms(last.attackResult.percentile(50)), ms(last.attackResult.percentile(99)), ms(last.quietResult.percentile(99)),
		r.medianRatio(), ratios[0], ratios[len(ratios)-1])
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// violations returns the promises that the attack has broken.
func (r *result) violations() (out []string) {
	share, sent, failed, first := r.errorShare()
	if sent == 0 {
		return []string{"no good delivery was made"}
	}
	if share >= maxErrorShare {
		out = append(out, fmt.Sprintf("%d of %d good deliveries failed, %.1f %%; the first: %s", failed, sent, 100*share, first))
	}
	if ratio := r.medianRatio(); ratio >= maxLatencyRatio || len(r.latencyRatios()) == 0 {
		out = append(out, fmt.Sprintf("the p99 of good deliveries was %.2f times that of the quiet time", ratio))
	}
	return out
}
