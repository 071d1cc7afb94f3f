// Bench measures Oncegate against the least that a database can do and against
// a receiver that does not group its commits; see scripts/bench.
//
// Everything runs on this machine: a PostgreSQL of its own with durable
// defaults, the receivers, and the generator of the load. The figures of one
// kind are taken in rounds between those of the others, and ratios are made
// within a round, so that what else the machine does meanwhile hits all alike.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	schema      = "oncegate"
	sourceName  = "stripe"
	secretValue = "whsec_bench_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes
	bodySize    = 2048
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "naive" {
		if err := serveNaive(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench: naive receiver:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what can be chosen.
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
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
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

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	started := time.Now()
	b, err := setUp(ctx, o)
	if b != nil {
		defer func() { err = errors.Join(err, b.tearDown()) }()
	}
	if err != nil {
		return err
	}
	report, err := b.measure(ctx)
	if err != nil {
		return err
	}
	report.Seconds = time.Since(started).Seconds()
	if o.output == "json" {
		return report.writeJSON(os.Stdout)
	}
	return report.writeTable(os.Stdout)
}
