// Attack lets people without a secret send slowly, hold connections open and forge, and
// measures what that costs good deliveries beside them; see scripts/attack.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/trials/rig"
)

// options are what can be chosen.
type options struct {
	rate          int           // good deliveries a second
	length, quiet time.Duration // of an attack, and of the quiet time before it
	rounds        int
	empty         int // connections of the attack that sends nothing
	files         int // that the binary may have open
	binary        string
	phases        []string
}

func parse(args []string) (options, error) {
	var o options
	var phases string
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	flags.IntVar(&o.rate, "rate", 100, "good deliveries a second")
	flags.DurationVar(&o.length, "length", 12*time.Second, "how long each attack is measured")
	flags.DurationVar(&o.quiet, "quiet", 8*time.Second, "how long the good deliveries alone are measured before it")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each attack is made")
	flags.IntVar(&o.empty, "empty", 4500, "connections that send nothing, as far as the limit of open files allows")
	flags.IntVar(&o.files, "files", 4096, "the binary's limit of open files")
	flags.StringVar(&o.binary, "binary", "", "another binary to attack; empty builds the checkout's")
	flags.StringVar(&phases, "phases", strings.Join(attackNames(), ","), "which attacks")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.phases = strings.Split(phases, ",")
	for _, name := range o.phases {
		if !slices.Contains(attackNames(), name) {
			return o, fmt.Errorf("-phases %q is unknown; known are %s", name, strings.Join(attackNames(), ", "))
		}
	}
	if o.rate < 10 || o.rate > 1000 || o.length < time.Second || o.quiet < time.Second || o.length > time.Minute || o.quiet > time.Minute || o.rounds < 1 || o.empty < 1 || o.files < 256 || flags.NArg() > 0 {
		return o, errors.New("-rate is 10 to 1000, -length and -quiet 1s to 1m, -rounds and -empty at least 1, -files at least 256, and there are no arguments")
	}
	return o, nil
}

func main() { rig.Main("attack", run) }

// run makes the attacks one after another and says whether one broke the promise.
func run(ctx context.Context, args []string) (broken bool, err error) {
	o, err := parse(args)
	if err != nil {
		return false, err
	}
	w, err := newWorld(ctx, o.binary, o.files)
	if w != nil {
		defer func() { err = errors.Join(err, w.Close()) }()
	}
	if err != nil {
		return false, err
	}
	if o.empty, err = fitting(o.empty); err != nil {
		return false, err
	}
	fmt.Printf("attacks on %s: %d good deliveries a second beside each, %d times\n", w.node.Public, o.rate, o.rounds)
	before, err := w.node.Metrics(ctx)
	if err != nil {
		return false, err
	}
	var results []result
	for _, name := range o.phases {
		r, err := w.phase(ctx, name, o)
		if err != nil {
			return false, rig.ExplainFailure(err, "./scripts/attack -phases "+name, w.Logs("")...)
		}
		results = append(results, r)
		fmt.Println(r.line())
	}
	left := w.leftover(ctx, before)
	for _, r := range results {
		for _, wrong := range r.broken() {
			broken = true
			fmt.Fprintf(os.Stderr, "BROKEN: %s: %s\n", r.name, wrong)
		}
	}
	if left != nil {
		broken = true
		fmt.Fprintf(os.Stderr, "BROKEN: after the attacks: %v\n", left)
	}
	if !broken {
		fmt.Println("PASSED: good deliveries had under 1 % errors and under 2 times their p99 beside each attack, and nothing is left of them")
	}
	return broken, nil
}

// phase makes one attack several times, each after a quiet time.
func (w *world) phase(ctx context.Context, name string, o options) (result, error) {
	r := result{name: name}
	for range o.rounds {
		quiet, err := w.deliver(ctx, o.rate, o.quiet)
		if err != nil {
			return r, err
		}
		attacking, stop := context.WithCancel(ctx)
		a := newAttack(w.node.Public, o.empty)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			attacks[name](attacking, a)
		}()
		attacked, err := w.deliver(ctx, o.rate, o.length)
		stop()
		<-ended
		if err != nil {
			return r, err
		}
		if !w.node.Running() {
			return r, fmt.Errorf("the process ended by itself: %w", errors.Join(w.node.Err(), rig.ErrEnded))
		}
		r.rounds = append(r.rounds, round{quiet, attacked})
		r.connections = max(r.connections, a.connections())
	}
	return r, nil
}
