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

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// options are the flags.
type options struct {
	rate                int           // good deliveries a second
	attackFor, quietFor time.Duration // how long an attack and the quiet time before it are measured
	rounds              int
	emptyConnections    int // connections of the attacks that send nothing
	openFiles           int // the binary's limit
	binary              string
	phases              []string
}

func parse(args []string) (options, error) {
	var o options
	var phases string
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	flags.IntVar(&o.rate, "rate", 100, "good deliveries a second")
	flags.DurationVar(&o.attackFor, "length", 12*time.Second, "how long each attack is measured")
	flags.DurationVar(&o.quietFor, "quiet", 8*time.Second, "how long the good deliveries alone are measured before it")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each attack is made")
	flags.IntVar(&o.emptyConnections, "empty", 4500, "connections that send nothing, as far as the limit of open files allows")
	flags.IntVar(&o.openFiles, "files", 4096, "the binary's limit of open files")
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
	if o.rate < 10 || o.rate > 1000 || o.attackFor < time.Second || o.quietFor < time.Second || o.attackFor > time.Minute || o.quietFor > time.Minute || o.rounds < 1 || o.emptyConnections < 1 || o.openFiles < 256 || flags.NArg() > 0 {
		return o, errors.New("-rate is 10 to 1000, -length and -quiet 1s to 1m, -rounds and -empty at least 1, -files at least 256, and there are no arguments")
	}
	return o, nil
}

func main() { lab.RunMain("attack", run) }

// run makes the attacks one after another and reports whether one broke the promise.
func run(ctx context.Context, args []string) (broken bool, err error) {
	o, err := parse(args)
	if err != nil {
		return false, err
	}
	started, err := lab.NewWorld(ctx, lab.WorldConfig{Name: "attack", Binary: o.binary, Postgres: devpg.Config{
		Settings: map[string]string{"max_connections": "200", "shared_buffers": "256MB"},
	}})
	if started != nil {
		defer func() { err = errors.Join(err, started.Close()) }()
	}
	if err != nil {
		return false, err
	}
	w := &world{Campaign: lab.NewCampaign(started, "attack", nil, "ATTACK_SECRET="+secret, "LOG_LEVEL=warn")}
	defer func() { err = w.End(err, "./scripts/attack -phases "+strings.Join(o.phases, ",")) }()
	if err := w.prepare(ctx, o.openFiles); err != nil {
		return false, err
	}
	if o.emptyConnections, err = fitOpenFiles(o.emptyConnections); err != nil {
		return false, err
	}
	fmt.Printf("attacks on %s: %d good deliveries a second beside each, %d times\n", w.node.Public, o.rate, o.rounds)
	before, err := w.node.Metrics(ctx)
	if err != nil {
		return false, err
	}
	var results []result
	for _, name := range o.phases {
		r, err := w.runPhase(ctx, name, o)
		if err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, r)
		fmt.Println(r.line())
	}
	left := w.waitForLeftovers(ctx, before)
	for _, r := range results {
		for _, wrong := range r.violations() {
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

// runPhase makes one attack several times, each after a quiet time.
func (w *world) runPhase(ctx context.Context, name string, o options) (result, error) {
	r := result{name: name}
	for range o.rounds {
		quiet, err := w.deliver(ctx, o.rate, o.quietFor)
		if err != nil {
			return r, err
		}
		attacking, stop := context.WithCancel(ctx)
		a := newAttack(w.node.Public, o.emptyConnections)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			attacks[name](attacking, a)
		}()
		attacked, err := w.deliver(ctx, o.rate, o.attackFor)
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
