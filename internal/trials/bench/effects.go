package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// effectsOptions are the flags of the benchmark of effects.
type effectsOptions struct {
	output  output
	rounds  int
	effects int
	idle    time.Duration
	only    string
	env     repeated
}

func parseEffects(args []string) (effectsOptions, error) {
	var o effectsOptions
	var quick bool
	flags := flag.NewFlagSet("bench effects", flag.ContinueOnError)
	flags.BoolVar(&quick, "quick", false, "half a minute: one round of 3,000 effects, 5 s of idling")
	flags.Var(&o.output, "output", "table or json")
	flags.IntVar(&o.rounds, "rounds", 3, "how often everything is measured")
	flags.IntVar(&o.effects, "effects", 20_000, "in each backlog")
	flags.DurationVar(&o.idle, "idle", 20*time.Second, "how long an idle system is watched; 0 is not at all")
	flags.StringVar(&o.only, "only", "", "one subject, such as forward, and nothing else: for profiling")
	flags.Var(&o.env, "env", "a variable for the real binary, as NAME=VALUE; may be repeated")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if quick {
		o.rounds, o.effects, o.idle = 1, 3000, 5*time.Second
	}
	if o.rounds < 1 || o.effects < 100 || o.idle < 0 || flags.NArg() > 0 {
		return o, errors.New("--rounds is at least 1 and --effects at least 100, --idle is not negative, and there are no arguments")
	}
	return o, nil
}

// backlogReport is the part that the benchmarks of effects and of order have in common.
type backlogReport struct {
	reportRun
	Rounds  int       `json:"rounds"`
	Effects int       `json:"effects"`
	Drains  []drained `json:"drains"`
	Ratios  []ratio   `json:"ratios"`
}

// drainReport is the result of the benchmark of effects.
type drainReport struct {
	backlogReport

	// IdlePerSecond is how many transactions the database ran per second for an idle process of both roles; nil if that
	// was not measured.
	IdlePerSecond *float64 `json:"idle_transactions_per_second,omitempty"`
}

// drained is the result of one kind of backlog, which is worked off once a round.
type drained struct {
	Subject   string    `json:"subject"`
	About     string    `json:"about"`
	PerSecond []float64 `json:"per_second"`
	WorkerCPU []float64 `json:"worker_cpu_us_each"`
	ServerCPU []float64 `json:"postgresql_cpu_us_each"`
}

// maxIdleTransactions is the target: how many transactions a second an idle system may run.
const maxIdleTransactions = 5

// measureEffects measures how fast backlogs are worked off: our own, and River's of the same length.
func measureEffects(ctx context.Context, args []string) error {
	o, err := parseEffects(args)
	if err != nil {
		return err
	}
	return onTestbed(ctx, o.output, func(s *testbed) (report, error) {
		d := &drains{effectsOptions: o, testbed: s}
		if err := d.setUp(ctx); err != nil {
			return nil, err
		}
		defer d.target.Close()
		return d.measure(ctx)
	})
}

func (d *drains) measure(ctx context.Context) (*drainReport, error) {
	report := &drainReport{backlogReport: backlogReport{Rounds: d.rounds, Effects: d.effects}}
	subjects := d.subjects()
	for _, s := range subjects {
		report.Drains = append(report.Drains, drained{Subject: s.name, About: s.about})
	}
	for round := range d.rounds {
		for i, s := range subjects {
			if err := d.measureDrain(ctx, s, &report.Drains[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			progress("round %d of %d  %-12s %8.0f/s", round+1, d.rounds, s.name, report.Drains[i].PerSecond[round])
		}
	}
	report.compare()
	if d.idle > 0 && d.only == "" {
		idle, err := d.measureIdle(ctx)
		if err != nil {
			return nil, err
		}
		report.IdlePerSecond = &idle
	}
	return report, nil
}

func (r *drainReport) rates(subject string) []float64 {
	for _, d := range r.Drains {
		if d.Subject == subject {
			return d.PerSecond
		}
	}
	return nil
}

func (r *drainReport) compare() {
	for _, c := range []struct {
		above, below string
		atLeast      float64
	}{
		{subjectSQL, subjectRiverSQL, 1.5},
		{subjectForward, subjectRiverSQL, .9},
		{subjectSQL, subjectRiverNoop, 0},
		{subjectForward, subjectRiverNoop, 0},
		{subjectPublish, subjectRiverNoop, 0},
	} {
		if out, ok := newRatio(c.above+" / "+c.below, r.rates(c.above), r.rates(c.below), c.atLeast, 0); ok {
			r.Ratios = append(r.Ratios, out)
		}
	}
}

func (r *backlogReport) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "\n%d round(s), backlogs of %d; medians over the rounds and their range. Bodies of 2 KiB.\n", r.Rounds, r.Effects)
	fmt.Fprintf(w, "%s The target of forward shares the machine.\n\n", r.server())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\teach second\tleast\tmost\tworker CPU us each\tPostgreSQL CPU us each\t\n")
	for _, d := range r.Drains {
		spread := newSpread(d.PerSecond)
		fmt.Fprintf(t, "%s: %s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", d.Subject, d.About, spread.median, spread.min, spread.max, median(d.WorkerCPU), median(d.ServerCPU))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return writeRatios(w, r.Ratios)
}

func (r *drainReport) writeTable(w io.Writer) error {
	if err := r.backlogReport.writeTable(w); err != nil {
		return err
	}
	if r.IdlePerSecond != nil {
		verdict := "met"
		if *r.IdlePerSecond > maxIdleTransactions {
			verdict = "missed"
		}
		fmt.Fprintf(w, "\nIdle: %.1f transactions a second in the database; target <= %d: %s\n", *r.IdlePerSecond, maxIdleTransactions, verdict)
	}
	return nil
}
