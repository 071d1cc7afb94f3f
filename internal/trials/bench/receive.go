package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
)

// options are the flags of the receiving benchmark.
type options struct {
	quick   bool
	output  output
	rounds  int
	seconds float64
	only    string
	against string
	env     repeated
}

type repeated []string

func (r *repeated) String() string     { return fmt.Sprint([]string(*r)) }
func (r *repeated) Set(s string) error { *r = append(*r, s); return nil }

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench receive", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "one minute: one round of short measurements")
	flags.Var(&o.output, "output", "table or json")
	flags.IntVar(&o.rounds, "rounds", 3, "how often everything is measured")
	flags.Float64Var(&o.seconds, "seconds", 3, "of each measurement, a whole number")
	flags.StringVar(&o.only, "only", "", "the subjects to measure at 64 connections, such as ac, and nothing else: for profiling")
	flags.StringVar(&o.against, "against", "", "another revision, such as HEAD~1: measure both of them in turn, and nothing else")
	flags.Var(&o.env, "env", "a variable for the real binary, as NAME=VALUE; may be repeated")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.rounds < 1 || o.seconds < 1 || flags.NArg() > 0 {
		return o, errors.New("--rounds and --seconds are at least 1, and there are no arguments")
	}
	if o.only != "" && o.against != "" {
		return o, errors.New("--only and --against exclude each other")
	}
	if o.quick {
		o.rounds, o.seconds = 1, 2
	}
	return o, nil
}

// measureReceiving compares receivers, pgbench among them.
func measureReceiving(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	return onTestbed(ctx, o.output, func(s *testbed) (report, error) {
		b, err := setUp(ctx, o, s)
		if err != nil {
			return nil, err
		}
		return b.measure(ctx)
	})
}
