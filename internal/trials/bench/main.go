package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/oncegate/oncegate/internal/trials/lab"
)

const (
	schema      = "oncegate"
	sourceName  = "stripe"
	secretValue = "whsec_bench_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes
	bodySize    = 2048
)

// benchmark is something that can be measured, by its name on the command line.
type benchmark struct {
	name  string
	about string

	// run measures and prints the result. It parses the flags that follow the name.
	run func(ctx context.Context, args []string) error
}

// benchmarks lists the benchmarks. The first one runs when no name is given.
var benchmarks = []benchmark{
	{"receive", "deliveries acknowledged, beside pgbench and a receiver that groups nothing", measureReceiving},
	{"effects", "effects carried out, beside River itself", measureEffects},
	{"replay", "replays planned and run, and what they do to live deliveries", measureReplay},
	{"seal", "deliveries acknowledged with a keyring, beside those without", measureSealing},
	{"prune", "rows of the gate removed beside deliveries, and a day of bodies", measurePruning},
	{"order", "effects carried out in order, beside unordered ones", measureOrder},
	{"latency", "how long acknowledgements and effects take at 5 and 1,000 deliveries a second, beside commits", measureLatency},
	{"overhead", "deliveries acknowledged with labels, counts and the console, beside those without", measureOverhead},
	// Processes that the benchmarks start for comparison.
	{"naive", "", serveNaive},
	{"bare", "", serveBare},
	{"receiver", "", serveReceiver},
	{"river", "", workRiver},
}

func main() {
	lab.RunMain("bench", func(ctx context.Context, args []string) (bool, error) { return false, dispatch(ctx, args) })
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return benchmarks[0].run(ctx, args)
	}
	var known []string
	for _, b := range benchmarks {
		if b.name == args[0] {
			if err := b.run(ctx, args[1:]); err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			return nil
		}
		if b.about != "" {
			known = append(known, fmt.Sprintf("\n  %-8s %s", b.name, b.about))
		}
	}
	return fmt.Errorf("there is no benchmark %q; there are:%s", args[0], strings.Join(known, ""))
}
