package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// receiveReport is the result of the benchmark of receivers.
type receiveReport struct {
	reportRun
	Rounds      int     `json:"rounds"`
	SecondsEach float64 `json:"seconds_each"`

	// Medians are the medians of the rounds, and Cells all measurements.
	Medians  []cell  `json:"medians"`
	Ratios   []ratio `json:"ratios"`
	OpenLoop []cell  `json:"open_loop"`
	Memory   memory  `json:"memory"`
	Cells    []cell  `json:"cells"`

	names map[subject]string
}

type memory struct {
	Connections int     `json:"connections"`
	BodyBytes   int     `json:"body_bytes"`
	PerSecond   float64 `json:"acked_per_second"`
	Overloaded  int     `json:"overloaded"`
	PeakMiB     float64 `json:"peak_rss_mib"`
}

// cellsLike returns the cells of all rounds that measured the same.
func (r *receiveReport) cellsLike(s subject, connections int, k kind) []cell {
	var out []cell
	for _, c := range r.Cells {
		if c.Subject == s && c.Connections == connections && c.Kind == k {
			out = append(out, c)
		}
	}
	return out
}

func valuesOf(cells []cell, value func(*cell) float64) float64 {
	values := make([]float64, len(cells))
	for i := range cells {
		values[i] = value(&cells[i])
	}
	return median(values)
}

func rate(c *cell) float64 { return c.PerSecond }

// peak is the largest rate of a subject at 256 connections, or at 64 if that was not measured.
func (r *receiveReport) peak(s subject) float64 {
	return max(valuesOf(r.cellsLike(s, 256, onlyNew), rate), valuesOf(r.cellsLike(s, 64, onlyNew), rate))
}

func (r *receiveReport) summarise() {
	for _, s := range []subject{subjectPgbench, subjectNaive, subjectGate, subjectWorked, subjectBare, subjectAgainst} {
		for _, k := range []kind{onlyNew, halfDuplicates, duplicates, onlyNew + openLoop} {
			for _, n := range []int{1, 64, 256} {
				cells := r.cellsLike(s, n, k)
				if len(cells) == 0 {
					continue
				}
				r.Medians = append(r.Medians, cell{
					Subject: s, Connections: n, Kind: k,
					PerSecond: valuesOf(cells, rate), P50: valuesOf(cells, func(c *cell) float64 { return c.P50 }), P99: valuesOf(cells, func(c *cell) float64 { return c.P99 }),
					Acked:           int(valuesOf(cells, func(c *cell) float64 { return float64(c.Acked) })),
					Failed:          int(valuesOf(cells, func(c *cell) float64 { return float64(c.Failed) })),
					ReceiverCPU:     valuesOf(cells, func(c *cell) float64 { return c.ReceiverCPU }),
					PostgresCPU:     valuesOf(cells, func(c *cell) float64 { return c.PostgresCPU }),
					WorkedPerSecond: valuesOf(cells, func(c *cell) float64 { return c.WorkedPerSecond }),
				})
			}
		}
	}
	for _, n := range []int{1, 64, 256} {
		atLeast := 0.0
		if n == 64 {
			atLeast = 4
		}
		r.compare(fmt.Sprintf("c/b acked/s, %d connections", n), r.cellsLike(subjectGate, n, onlyNew), r.cellsLike(subjectNaive, n, onlyNew), rate, atLeast, 0)
	}
	r.compare("c/b acked/s, 64 connections, half duplicates", r.cellsLike(subjectGate, 64, halfDuplicates), r.cellsLike(subjectNaive, 64, halfDuplicates), rate, 0, 0)
	for _, n := range []int{64, 256} {
		atLeast := 0.0
		if n == 64 {
			atLeast = .6
		}
		r.compare(fmt.Sprintf("c/a commits/s, %d connections", n), r.cellsLike(subjectGate, n, onlyNew), r.cellsLike(subjectPgbench, n, onlyNew), rate, atLeast, 0)
	}
	r.compare("c/f acked/s, 64 connections", r.cellsLike(subjectGate, 64, onlyNew), r.cellsLike(subjectBare, 64, onlyNew), rate, .4, 0)
	r.compare("c/b latency of a lone request, p50", r.cellsLike(subjectGate, 1, onlyNew), r.cellsLike(subjectNaive, 1, onlyNew), func(c *cell) float64 { return c.P50 }, 0, 1.2)
	r.compare("duplicate / first delivery, processor time", r.cellsLike(subjectGate, 64, duplicates), r.cellsLike(subjectGate, 64, onlyNew), (*cell).cpu, 0, 1)
	r.compare("duplicate / first delivery, p50", r.cellsLike(subjectGate, 64, duplicates), r.cellsLike(subjectGate, 64, onlyNew), func(c *cell) float64 { return c.P50 }, 0, 1)
	r.compareAgainst()
	r.compare("d/c acked/s, 64 connections", r.cellsLike(subjectWorked, 64, onlyNew), r.cellsLike(subjectGate, 64, onlyNew), rate, 0, 0)
}

// compare adds the ratio of two measurements.
func (r *receiveReport) compare(what string, above, below []cell, value func(*cell) float64, atLeast, atMost float64) {
	values := func(cells []cell) []float64 {
		out := make([]float64, len(cells))
		for i := range cells {
			out[i] = value(&cells[i])
		}
		return out
	}
	if out, ok := newRatio(what, values(above), values(below), atLeast, atMost); ok {
		r.Ratios = append(r.Ratios, out)
	}
}

func (r *receiveReport) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d round(s) of %g s each; medians over the rounds. Bodies of 2 KiB, HMAC-SHA256, keep-alive.\n", r.Rounds, r.SecondsEach)
	fmt.Fprintf(w, "%s The generator shares the machine.\n\n", r.server())
	fmt.Fprintf(t, "\tconns\tdeliveries\tacked/s\tp50 ms\tp99 ms\treceiver CPU s/1000\tPostgreSQL CPU s/1000\tworked/s\tfailed\t\n")
	for i := range r.Medians {
		c := &r.Medians[i]
		receiver, worked := "-", "-"
		if c.Subject != subjectPgbench {
			receiver = fmt.Sprintf("%.3f", c.ReceiverCPU)
		}
		if c.Subject == subjectWorked {
			worked = fmt.Sprintf("%.0f", c.WorkedPerSecond)
		}
		fmt.Fprintf(t, "%s: %s\t%d\t%s\t%.0f\t%.2f\t%.2f\t%s\t%.3f\t%s\t%d\t\n", string(c.Subject), r.names[c.Subject], c.Connections, string(c.Kind),
			c.PerSecond, c.P50, c.P99, receiver, c.PostgresCPU, worked, c.Failed)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := writeRatios(w, r.Ratios); err != nil {
		return err
	}
	if len(r.OpenLoop) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nOpen loop at half the measured peak, 256 connections, latency from the scheduled time\n")
	for i := range r.OpenLoop {
		c := &r.OpenLoop[i]
		fmt.Fprintf(w, "  %s: %7.0f/s offered, %7.0f/s acked, p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms\n", string(c.Subject), c.Rate, c.PerSecond, c.P50, c.P99, c.P999)
	}
	verdict := "met"
	if r.Memory.PeakMiB >= 256 {
		verdict = "missed"
	}
	fmt.Fprintf(w, "\nMemory: %.0f MiB resident at most, at %d connections with %d KiB bodies (%.0f/s, %d answered 503); target < 256 MiB: %s\n",
		r.Memory.PeakMiB, r.Memory.Connections, r.Memory.BodyBytes>>10, r.Memory.PerSecond, r.Memory.Overloaded, verdict)
	return nil
}
