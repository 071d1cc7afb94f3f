package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/session"
)

// pruneOptions are the flags of the benchmark of prune.
type pruneOptions struct {
	output  output
	rows    int
	expired int
	pairs   int
	seconds float64
	body    int // MiB of each day of bodies that is dropped
	days    int
	churn   int // rounds
	rate    int
}

func parsePrune(args []string) (pruneOptions, error) {
	var o pruneOptions
	var quick bool
	flags := flag.NewFlagSet("bench prune", flag.ContinueOnError)
	flags.BoolVar(&quick, "quick", false, "a minute: 200,000 rows, one pair of 4 s, 100 MiB of bodies, 3 rounds of churn")
	flags.Var(&o.output, "output", "table or json")
	flags.IntVar(&o.rows, "rows", 5_000_000, "rows of the gate")
	flags.IntVar(&o.expired, "expired", 2_000_000, "of them past their horizon; filled up again after each pair")
	flags.IntVar(&o.pairs, "pairs", 7, "pairs of measurements, without prune and with it")
	flags.Float64Var(&o.seconds, "seconds", 20, "of each measurement")
	flags.IntVar(&o.body, "body", 2048, "MiB of each day of bodies that is dropped")
	flags.IntVar(&o.days, "days", 2, "days of bodies that are dropped, one after the other; 0 is none")
	flags.IntVar(&o.churn, "churn", 8, "rounds of writing, settling and pruning, to compare the size of tables with and without our settings; 0 is none")
	flags.IntVar(&o.rate, "rate", 0, "rows a second that prune may remove; 0 is its default, -1 is as many as it can")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if quick {
		o.rows, o.expired, o.pairs, o.seconds, o.body, o.days, o.churn = 200_000, 150_000, 1, 4, 100, 1, 3
	}
	if o.expired < 1000 || o.rows < o.expired || o.pairs < 0 || o.seconds < 1 || o.body < 1 || o.days < 0 || o.churn < 0 || flags.NArg() > 0 {
		return o, errors.New("--expired is at least 1000 and at most --rows, --seconds and --body at least 1, the others are not negative, and there are no arguments")
	}
	return o, nil
}

// pruneReport is the result of the benchmark of prune.
type pruneReport struct {
	reportRun
	Rows    int     `json:"rows"`
	Expired int     `json:"expired"`
	Peak    float64 `json:"peak_per_second"`
	Rate    float64 `json:"delivered_per_second"`

	// Pair by pair: the latency of acknowledgements without prune and during prune, and the number of rows that
	// prune removed in a second.
	Alone   []float64 `json:"alone_p99_ms"`
	Beside  []float64 `json:"beside_p99_ms"`
	Removed []float64 `json:"removed_per_second"`
	Ratios  []ratio   `json:"ratios"`

	Days  []dayReport `json:"days,omitempty"`
	Churn []churnSize `json:"churn,omitempty"`

	// Second is what a second pruner did while the first was at work.
	Second string `json:"second_pruner,omitempty"`
}

// The targets.
const (
	minRemoved      = 15_000 // rows of the gate a second
	maxSlowdown     = 1.5    // p99 of acknowledgements during prune, divided by the p99 without it
	maxDropSeconds  = 2      // until a day of bodies is gone
	maxDeliveryWait = 100    // of a delivery meanwhile, in milliseconds
)

// measurePruning prunes a large gate while it receives deliveries.
func measurePruning(ctx context.Context, args []string) error {
	o, err := parsePrune(args)
	if err != nil {
		return err
	}
	return onTestbed(ctx, o.output, func(s *testbed) (report, error) {
		config, err := s.WriteFile("oncegate.yml", configuration)
		if err != nil {
			return nil, err
		}
		receiver, err := s.serve(ctx, config, "receive")
		if err != nil {
			return nil, err
		}
		pool, err := session.OpenPool(ctx, s.DSN(), schema, session.PoolAdmin, 4)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		b := &pruneBench{pruneOptions: o, testbed: s, address: receiver.Public, pool: pool}
		r := &pruneReport{Rows: o.rows, Expired: o.expired}
		return r, b.measure(ctx, r)
	})
}

type pruneBench struct {
	pruneOptions
	*testbed
	address string
	pool    *pgxpool.Pool
	runs    uint32
	seeded  int
}

func (b *pruneBench) measure(ctx context.Context, r *pruneReport) error {
	progress("measuring the peak")
	got, err := b.load(ctx, 0, 3*time.Second)
	if err != nil {
		return err
	}
	r.Peak = got.perSecond()
	r.Rate = r.Peak / 2
	progress("%.0f deliveries/s; writing %d rows of the gate, %d of them past their horizon", r.Peak, b.rows, b.expired)
	began := time.Now()
	if err := b.seedAll(ctx); err != nil {
		return err
	}
	progress("they were written in %.0f s", time.Since(began).Seconds())
	for pair := 1; pair <= b.pairs; pair++ {
		if err := b.measurePair(ctx, r, pair); err != nil {
			return err
		}
	}
	if x, ok := newRatio("p99 of acknowledgements beside prune / alone", r.Beside, r.Alone, 0, maxSlowdown); ok {
		r.Ratios = append(r.Ratios, x)
	}
	ones := slices.Repeat([]float64{1}, len(r.Removed))
	if x, ok := newRatio("gate rows removed/s", r.Removed, ones, minRemoved, 0); ok {
		r.Ratios = append(r.Ratios, x)
	}
	if err := b.measureDays(ctx, r); err != nil {
		return err
	}
	return b.measureChurn(ctx, r)
}

// measurePair measures with prune and without. Which one comes first changes from pair to pair.
func (b *pruneBench) measurePair(ctx context.Context, r *pruneReport, pair int) error {
	measured := time.Duration(b.seconds * float64(time.Second))
	var alone, beside, removed float64
	for i := range 2 {
		if (pair+i)%2 == 0 {
			got, err := b.load(ctx, r.Rate, measured)
			if err != nil {
				return err
			}
			alone = got.quantile(.99)
			continue
		}
		var report prune.Report
		var wg sync.WaitGroup
		var pruned error
		wg.Go(func() { report, pruned = b.prune(ctx, measured+time.Second, nil) })
		if pair == 1 {
			wg.Go(func() { r.Second = b.tryConcurrentPrune(ctx) })
		}
		got, err := b.load(ctx, r.Rate, measured)
		wg.Wait()
		if err := errors.Join(err, pruned); err != nil {
			return err
		}
		beside, removed = got.quantile(.99), float64(report.Rows["inbox_event"])/report.Elapsed.Seconds()
		if err := b.seed(ctx, int(report.Rows["inbox_event"]), true); err != nil {
			return err
		}
	}
	r.Alone, r.Beside, r.Removed = append(r.Alone, alone), append(r.Beside, beside), append(r.Removed, removed)
	progress("%d/%d  p99 %.2f ms alone, %.2f ms beside prune, which removed %.0f rows/s", pair, b.pairs, alone, beside, removed)
	return nil
}

// load sends deliveries at a rate; 0 is as fast as they are answered.
func (b *pruneBench) load(ctx context.Context, rate float64, measured time.Duration) (*outcome, error) {
	b.runs++
	w := workload{connections: 64, kind: onlyNew, bodySize: bodySize, rate: rate, warmUp: 500 * time.Millisecond, measured: measured}
	return generate(ctx, b.address, b.runs, w, func() {}, func() {})
}

// prune makes one pass with the default settings.
func (b *pruneBench) prune(ctx context.Context, budget time.Duration, told func(prune.Progress)) (prune.Report, error) {
	pruner, err := prune.New(prune.Config{Pool: b.pool, Budget: budget, Rate: b.rate, Progress: told})
	if err != nil {
		return prune.Report{}, err
	}
	return pruner.Run(ctx, prune.Run{Anew: true})
}

// tryConcurrentPrune tries to prune while the first pruner is at work.
func (b *pruneBench) tryConcurrentPrune(ctx context.Context) string {
	<-time.After(time.Second)
	report, err := b.prune(ctx, time.Second, nil)
	switch {
	case err != nil:
		return err.Error()
	case report.Obtained:
		return "worked too: wrong"
	}
	return "left"
}

func (r *pruneReport) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n", r.server())
	fmt.Fprintf(w, "Gate of %d rows, %d past their horizon; deliveries at %.0f/s, half of the peak, %d bytes; over 64 connections, but over %d while a day goes\n\n", r.Rows, r.Expired, r.Rate, bodySize, openConnections)
	if len(r.Alone) > 0 {
		fmt.Fprintf(w, "  %-6s %14s %15s %14s\n", "pair", "p99 alone", "p99 beside", "removed/s")
	}
	for i := range r.Alone {
		fmt.Fprintf(w, "  %-6d %11.2f ms %12.2f ms %14.0f\n", i+1, r.Alone[i], r.Beside[i], r.Removed[i])
	}
	if err := writeRatios(w, r.Ratios); err != nil {
		return err
	}
	if r.Second != "" {
		fmt.Fprintf(w, "\nA second pruner beside the first: %s\n", r.Second)
	}
	writeChurn(w, r.Churn)
	return nil
}
