package main

import (
	"fmt"
	"io"
)

func (r *overheadReport) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "\n%d pairs of %g s at 64 connections, bodies of 2 KiB; medians over the pairs, and the processor time of the receiver and PostgreSQL.\n", r.Pairs, r.Each)
	fmt.Fprintf(w, "%s\n\n", r.server())
	for _, c := range r.Comparisons {
		with, without := newSpread(c.With), newSpread(c.Without)
		fmt.Fprintf(w, "  %-8s with %8.0f/s (%.0f to %.0f), %.0f us each; without %8.0f/s (%.0f to %.0f), %.0f us each\n", c.Name,
			with.median, with.min, with.max, median(c.WithCPU), without.median, without.min, without.max, median(c.WithoutCPU))
	}
	fmt.Fprintln(w)
	for _, c := range r.Comparisons {
		fmt.Fprintf(w, "  %s\n  %s\n", &c.PerSecond, &c.CPU)
		if c.IndexedCPU != nil {
			fmt.Fprintf(w, "  %s\n", c.IndexedCPU)
		}
	}
	for _, c := range r.Comparisons {
		if c.Labels > 0 {
			fmt.Fprintf(w, "\n%.0f %% of the labels were in their index when the load ended; the indexer leaves the database to deliveries for up to 20 s.\n", 100*float64(c.Labels-c.Waiting)/float64(c.Labels))
		}
		if c.reader != nil {
			fmt.Fprintf(w, "\n%d pages of the console were read, and its live list of events sent %d bytes.\n", c.Pages, c.reader.messages.Load())
		}
	}
	return nil
}
