package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

const secret = "whsec_order_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes

// options are the flags.
type options struct {
	keys, events     int
	window           int
	unordered        int
	duplicates       int // per hundred events
	senders, workers int
	killEvery        time.Duration
	jump             time.Duration
	standstillLimit  time.Duration // without any progress, until the rest is called stuck
	seed             uint64
	variants         []string
}

func parse(args []string) (options, error) {
	var o options
	var variants string
	flags := flag.NewFlagSet("order", flag.ContinueOnError)
	flags.IntVar(&o.keys, "keys", 1000, "sequences")
	flags.IntVar(&o.events, "events", 100, "numbers of each sequence")
	flags.IntVar(&o.unordered, "unordered", 4000, "events without order, where there are such")
	flags.IntVar(&o.window, "window", 5, "how far an event is delivered from its place")
	flags.IntVar(&o.duplicates, "duplicates", 10, "of a hundred events, how many are delivered twice")
	flags.IntVar(&o.senders, "ingesters", 8, "deliveries at once")
	flags.IntVar(&o.workers, "workers", 8, "worker processes")
	flags.DurationVar(&o.killEvery, "kill", 2*time.Second, "the mean time between two kills of a worker; 0 is never")
	flags.DurationVar(&o.jump, "jump", 12*time.Second, "for how long the database's clock is an hour ahead")
	flags.DurationVar(&o.standstillLimit, "patience", 2*time.Minute, "without anything happening, until what is left is called stuck")
	flags.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "decides the order of deliveries and the kills")
	flags.StringVar(&variants, "variants", strings.Join(variantNames(), ","), "what to run")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.variants = strings.Split(variants, ",")
	for _, name := range o.variants {
		if !slices.Contains(variantNames(), name) {
			return o, fmt.Errorf("-variants %q is unknown; known are %s", name, strings.Join(variantNames(), ", "))
		}
	}
	if min(o.keys, o.events, o.window, o.senders, o.workers) < 1 || o.duplicates < 0 || o.killEvery < 0 || o.jump < time.Second || o.unordered < 200 || o.standstillLimit <= 0 || flags.NArg() > 0 {
		return o, errors.New("sizes are at least 1 (-unordered 200), times not negative (-jump 1s), and there are no arguments")
	}
	return o, nil
}

func main() {
	lab.RunMain("order", func(ctx context.Context, args []string) (bool, error) {
		broken, err := run(ctx, args)
		return broken > 0, err
	})
}

// run runs the variants one after another and returns how many broke the promise.
func run(ctx context.Context, args []string) (broken int, err error) {
	o, err := parse(args)
	if err != nil {
		return 0, err
	}
	w, err := lab.NewWorld(ctx, lab.WorldConfig{Name: "order", Failpoints: slices.Contains(o.variants, "unlocked"), Postgres: devpg.Config{
		Settings: map[string]string{"max_connections": "500", "shared_buffers": "512MB"},
	}})
	if w != nil {
		defer func() { err = errors.Join(err, w.Close()) }()
	}
	if err != nil {
		return 0, err
	}
	for _, v := range variants {
		if !slices.Contains(o.variants, v.name) {
			continue
		}
		result, err := newCampaign(w, &o, &v).run(ctx)
		if err != nil {
			return broken, fmt.Errorf("%s: %w", v.name, err)
		}
		fmt.Println(result)
		for _, line := range rig.List(result.violations) {
			fmt.Println("  ", line)
		}
		if kept := len(result.violations) == 0; kept == v.defect() {
			broken++
		}
	}
	return broken, nil
}
