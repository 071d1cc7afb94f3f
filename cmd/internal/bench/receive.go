package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// options are what can be chosen for the receiving benchmark.
type options struct {
	quick   bool
	output  string
	rounds  int
	seconds float64
	only    string
	env     repeated
}

type repeated []string

func (r *repeated) String() string     { return fmt.Sprint([]string(*r)) }
func (r *repeated) Set(s string) error { *r = append(*r, s); return nil }

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench receive", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "one minute: one round of short measurements")
	flags.StringVar(&o.output, "output", "table", "table or json")
	flags.IntVar(&o.rounds, "rounds", 3, "how often everything is measured")
	flags.Float64Var(&o.seconds, "seconds", 3, "of each measurement, a whole number")
	flags.StringVar(&o.only, "only", "", "the subjects to measure at 64 connections, such as ac, and nothing else: for profiling")
	flags.Var(&o.env, "env", "a variable for the real binary, as NAME=VALUE; may be repeated")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.output != "table" && o.output != "json" {
		return o, fmt.Errorf("--output %q is unknown; known are table, json", o.output)
	}
	if o.rounds < 1 || o.seconds < 1 || flags.NArg() > 0 {
		return o, errors.New("--rounds and --seconds are at least 1, and there are no arguments")
	}
	if o.quick {
		o.rounds, o.seconds = 1, 2
	}
	return o, nil
}

// measureReceiving compares receivers, pgbench among them.
func measureReceiving(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	started := time.Now()
	s, err := newStand(ctx)
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return err
	}
	b, err := setUp(ctx, o, s)
	if err != nil {
		return err
	}
	report, err := b.measure(ctx)
	if err != nil {
		return err
	}
	report.Seconds = time.Since(started).Seconds()
	if o.output == "json" {
		return writeJSON(os.Stdout, report)
	}
	return report.writeTable(os.Stdout)
}
