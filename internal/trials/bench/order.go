package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// orderOptions are the flags of the benchmark of order.
type orderOptions struct {
	output       output
	rounds       int
	effects      int
	eventsPerKey int // numbers of each key
	streams      int
	only         string
	env          repeated
}

func parseOrder(args []string) (orderOptions, error) {
	var o orderOptions
	var quick bool
	flags := flag.NewFlagSet("bench order", flag.ContinueOnError)
	flags.BoolVar(&quick, "quick", false, "a minute: one round of 2,000 effects, 100,000 streams")
	flags.Var(&o.output, "output", "table or json")
	flags.IntVar(&o.rounds, "rounds", 3, "how often everything is measured")
	flags.IntVar(&o.effects, "effects", 10_000, "in each backlog")
	flags.IntVar(&o.eventsPerKey, "each", 10, "numbers of each key where there are many keys")
	flags.IntVar(&o.streams, "streams", 1_000_000, "rows of the table of streams for the last measurement; 0 is not at all")
	flags.StringVar(&o.only, "only", "", "only the backlogs whose names contain this, as in the table: \"forward\", \"hot key\"")
	flags.Var(&o.env, "env", "a variable for the real binary, as NAME=VALUE; may be repeated")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if quick {
		o.rounds, o.effects, o.streams = 1, 2000, 100_000
	}
	if o.rounds < 1 || o.effects < 100 || o.eventsPerKey < 1 || o.streams < 0 || flags.NArg() > 0 {
		return o, errors.New("--rounds and --each are at least 1, --effects at least 100, --streams not negative, and there are no arguments")
	}
	if len(o.subjects()) == 0 {
		return o, fmt.Errorf("--only %q is in the name of no backlog", o.only)
	}
	return o, nil
}

// orderSubject is a backlog of a route: how the route is ordered, and how many numbers each key has.
type orderSubject struct {
	kind, order  string
	eventsPerKey int
}

func (s *orderSubject) name() string { return s.kind + ": " + s.about() }

func (s *orderSubject) about() string {
	switch {
	case s.order == "none":
		return "unordered"
	case s.eventsPerKey == 0:
		return s.order + ", one hot key"
	case s.eventsPerKey == 1:
		return s.order + ", every key once"
	}
	return fmt.Sprintf("%s, %d a key", s.order, s.eventsPerKey)
}

// subjects returns the backlogs, each next to the one that it is compared with.
func (o *orderOptions) subjects() []orderSubject {
	var out []orderSubject
	for _, kind := range []string{subjectSQL, subjectForward} {
		out = append(out,
			orderSubject{kind, "none", o.eventsPerKey},
			// Of several numbers in a backlog, latest carries out only the newest, which would measure something else.
			orderSubject{kind, "latest", 1},
			orderSubject{kind, "contiguous", o.eventsPerKey},
			orderSubject{kind, "contiguous", 0})
	}
	return slices.DeleteFunc(out, func(s orderSubject) bool { return !strings.Contains(s.name(), o.only) })
}

// orderReport is the result of the benchmark of order.
type orderReport struct {
	backlogReport
	Streams *streamsReport `json:"streams,omitempty"`
}

// streamsReport is the cost of a large table of streams.
type streamsReport struct {
	Rows      int     `json:"rows"`
	MiB       float64 `json:"mib"`
	PerSecond float64 `json:"per_second"`
	PeakMiB   float64 `json:"worker_peak_rss_mib"`
}

// The targets: an ordered effect takes at most twice the time of an unordered one, and one hot key allows so many
// events a second.
const (
	maxOrderCost = 2
	minHotRate   = 500
)

// measureOrder measures backlogs of ordered and of unordered routes.
func measureOrder(ctx context.Context, args []string) error {
	o, err := parseOrder(args)
	if err != nil {
		return err
	}
	return onTestbed(ctx, o.output, func(s *testbed) (report, error) {
		d := &orders{orderOptions: o, drains: &drains{testbed: s}}
		if err := d.setUp(ctx); err != nil {
			return nil, err
		}
		defer d.target.Close()
		return d.measure(ctx)
	})
}

func (d *orders) measure(ctx context.Context) (*orderReport, error) {
	report := &orderReport{backlogReport: backlogReport{Rounds: d.orderOptions.rounds, Effects: d.orderOptions.effects}}
	subjects := d.orderOptions.subjects()
	for i := range subjects {
		report.Drains = append(report.Drains, drained{Subject: subjects[i].kind, About: subjects[i].about()})
	}
	for round := range report.Rounds {
		for i := range subjects {
			if _, err := d.measureDrain(ctx, &subjects[i], &report.Drains[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", subjects[i].name(), err)
			}
			progress("round %d of %d  %-34s %8.0f/s", round+1, report.Rounds, subjects[i].name(), report.Drains[i].PerSecond[round])
		}
	}
	report.compare(subjects)
	if d.streams == 0 {
		return report, nil
	}
	var err error
	report.Streams, err = d.measureAmongStreams(ctx)
	return report, err
}

// compare computes, for each round, the time of an ordered event divided by the time of an unordered event of the same
// kind. For one hot key it computes the rate instead.
func (r *orderReport) compare(subjects []orderSubject) {
	var unordered []float64
	for i := range subjects {
		s := &subjects[i]
		if s.order == "none" {
			unordered = r.Drains[i].PerSecond
			continue
		}
		if s.eventsPerKey > 0 {
			if out, ok := newRatio("time of "+s.name()+" / unordered", unordered, r.Drains[i].PerSecond, 0, maxOrderCost); ok {
				r.Ratios = append(r.Ratios, out)
			}
			continue
		}
		hot := newSpread(r.Drains[i].PerSecond)
		r.Ratios = append(r.Ratios, ratio{
			What: "events/s of " + s.name(), Median: hot.median, Min: hot.min, Max: hot.max,
			Target: fmt.Sprintf(">= %d", minHotRate), Met: hot.median >= minHotRate,
		})
	}
}

func (r *orderReport) writeTable(w io.Writer) error {
	if err := r.backlogReport.writeTable(w); err != nil {
		return err
	}
	if s := r.Streams; s != nil {
		fmt.Fprintf(w, "\nStreams: %d rows take %.0f MiB with their indexes; among them %.0f events/s of sql, contiguous; worker at most %.0f MiB resident\n",
			s.Rows, s.MiB, s.PerSecond, s.PeakMiB)
	}
	return nil
}

// peakMemory is the largest memory that a process has had, in MiB.
func peakMemory(p *rig.Process) (float64, error) {
	bytes, err := lab.PeakRSS(p.PID())
	return float64(bytes) / (1 << 20), err
}
