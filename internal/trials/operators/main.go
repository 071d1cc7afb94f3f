package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// options are the flags.
type options struct {
	rounds, operators, acts int
	seed                    uint64
	defects                 bool
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("operators", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.IntVar(&o.rounds, "rounds", 20, "rounds")
	flags.IntVar(&o.operators, "operators", 4, "people who act at the same time")
	flags.IntVar(&o.acts, "acts", 2, "acts of each of them in a round")
	flags.Uint64Var(&o.seed, "seed", 0, "decides what is delivered, how targets behave and who does what; 0 draws one")
	flags.BoolVar(&o.defects, "wrong", false, "change the tables as a wrong implementation would, and succeed if that is noticed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if min(o.rounds, o.operators, o.acts) < 1 || flags.NArg() > 0 {
		return o, errors.New("numbers are at least 1, and there are no arguments")
	}
	o.seed = rig.DrawSeed(o.seed)
	return o, nil
}

func main() { lab.RunMain("operators", run) }

// violationLimit is how many violations are printed.
func (o *options) violationLimit() int {
	if o.defects {
		return 3
	}
	return 30
}

// run runs a campaign and reports whether it found a violation.
func run(ctx context.Context, args []string) (broken bool, err error) {
	o, err := parse(args, os.Stderr)
	if err != nil {
		return false, err
	}
	fmt.Printf("operators: %d rounds of %d operators, seed %d\n", o.rounds, o.operators, o.seed)
	began := time.Now()
	// PostgreSQL is not killed, so it need not be durable.
	w, err := lab.NewWorld(ctx, lab.WorldConfig{Name: "operators", Postgres: devpg.Config{Volatile: true, Settings: map[string]string{"max_connections": "300"}}})
	if w != nil {
		defer func() { err = errors.Join(err, w.Close()) }()
	}
	if err != nil {
		return false, err
	}
	c := newCampaign(o, w)
	repeat := fmt.Sprintf("./scripts/operators -rounds %d -operators %d -acts %d -seed %d", o.rounds, o.operators, o.acts, o.seed)
	if err := c.End(c.run(ctx), repeat); err != nil {
		c.printViolations() // what was found before it ended early
		return false, err
	}
	found := c.violations
	if len(found) > 0 && !o.defects {
		kept, err := lab.KeepLogs(w.Logs("")...)
		if err != nil {
			return true, err
		}
		fmt.Printf("   to repeat it: %s\n   the logs: %s\n", repeat, kept)
	}
	c.printViolations()
	if o.defects {
		missed := c.unnoticedDefects()
		fmt.Print(c.summary(time.Since(began)))
		fmt.Printf("wrong on purpose, and not noticed: %v\n", missed)
		return len(missed) > 0, nil
	}
	never := c.missingFigures()
	for _, kind := range never {
		if o.rounds >= fullRounds {
			fmt.Printf("   never: %q did not happen in %d rounds, so nothing is proved about it\n", kind, o.rounds)
		}
	}
	fmt.Print(c.summary(time.Since(began)))
	if len(never) > 0 && o.rounds < fullRounds {
		fmt.Printf("  %-11s %s\n", "not yet", strings.Join(never, ", "))
	}
	return len(found) > 0 || o.rounds >= fullRounds && len(never) > 0, nil
}

// printViolations prints the first violations.
func (c *campaign) printViolations() {
	for _, v := range c.violations[:min(len(c.violations), c.violationLimit())] {
		fmt.Println("  ", v)
	}
	if len(c.violations) > c.violationLimit() {
		fmt.Printf("   and %d more\n", len(c.violations)-c.violationLimit())
	}
}

// fullRounds is the number of rounds from which on every kind of act and of end must have happened.
const fullRounds = 300

// sortedKeys returns the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
