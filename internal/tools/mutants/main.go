// Mutants changes the code of packages in small ways, one at a time, and runs their tests. A change
// that no test detects survives: it shows behavior that the tests do not check. Mutants never
// modifies the tree; it passes each change to the go command as an overlay. See scripts/mutants.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the command line flags and arguments.
type options struct {
	packages []string
	tests    string
	number   int
	seed     uint64
	limit    time.Duration
	length   time.Duration
	output   string
}

// The exit codes.
const (
	allKilled  = 0
	survived   = 1
	notStarted = 2 // wrong arguments, or tests that fail without any change
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	os.Exit(status)
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.tests, "tests", "", "packages whose tests are run, separated by commas (default: of each package its own, else those beside and below it)")
	flags.IntVar(&o.number, "number", 60, "how many mutants are tried")
	flags.Uint64Var(&o.seed, "seed", 0, "decides which mutants are tried; 0 draws one")
	flags.DurationVar(&o.limit, "limit", 0, "time for one mutant (default: three times what the tests take, and half a minute)")
	flags.DurationVar(&o.length, "for", 30*time.Minute, "time for all; what is not tried by then is left out")
	flags.StringVar(&o.output, "output", "text", "text or json")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.packages = flags.Args()
	switch {
	case len(o.packages) == 0:
		return o, errors.New("no package is named: give some, such as ./internal/egress ./inbox/seal (flags come before them)")
	case o.number < 1:
		return o, errors.New("--number is at least 1")
	case o.limit < 0 || o.length <= 0:
		return o, errors.New("--limit and --for are durations above 0, such as 2m")
	case o.output != "text" && o.output != "json":
		return o, fmt.Errorf("--output %q: write text or json", o.output)
	}
	for o.seed == 0 {
		o.seed = rand.Uint64() //nolint:gosec // a sample is no secret
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, errs io.Writer) (status int, err error) {
	o, err := parse(args, errs)
	if err != nil {
		return notStarted, err
	}
	packages, err := list(ctx, o.packages)
	if err != nil {
		return notStarted, err
	}
	var mutations []mutation
	for i := range packages {
		found, err := packages[i].mutations()
		if err != nil {
			return notStarted, err
		}
		mutations = append(mutations, found...)
	}
	if len(mutations) == 0 {
		return notStarted, errors.New("there is nothing to change in these packages")
	}
	random := rand.New(rand.NewPCG(o.seed, 0)) //nolint:gosec // a sample is no secret
	random.Shuffle(len(mutations), func(i, k int) { mutations[i], mutations[k] = mutations[k], mutations[i] })
	c, err := newCampaign(o, len(mutations), out, errs)
	if err != nil {
		return notStarted, err
	}
	defer c.close()
	if err := c.baseline(ctx, packages); err != nil {
		return notStarted, err
	}
	if err := c.try(ctx, mutations); err != nil {
		return notStarted, err
	}
	if err := c.report(); err != nil {
		return notStarted, err
	}
	if len(c.Survivors) > 0 {
		return survived, nil
	}
	return allKilled, nil
}
