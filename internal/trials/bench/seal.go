package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// sealReport is the result of the benchmark of sealing.
type sealReport struct {
	reportRun
	Rounds int `json:"rounds"`

	// Acknowledged deliveries a second, round by round.
	Plain  []float64 `json:"plain_per_second"`
	Sealed []float64 `json:"sealed_per_second"`

	// Processor time of the receiver for each delivery, in microseconds.
	PlainCPU  []float64 `json:"plain_receiver_cpu_us_each"`
	SealedCPU []float64 `json:"sealed_receiver_cpu_us_each"`

	Ratios []ratio `json:"ratios"`
}

// measureSealing compares a receiver with a keyring and one without. Which comes first changes from round to round.
func measureSealing(ctx context.Context, args []string) error {
	rounds, seconds := 7, 5.0
	var quick bool
	var format output
	flags := flag.NewFlagSet("bench seal", flag.ContinueOnError)
	flags.BoolVar(&quick, "quick", false, "ten seconds: one round")
	flags.Var(&format, "output", "table or json")
	flags.IntVar(&rounds, "rounds", rounds, "how often both are measured")
	flags.Float64Var(&seconds, "seconds", seconds, "of each measurement")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if quick {
		rounds, seconds = 1, 2
	}
	if rounds < 1 || seconds < 1 || flags.NArg() > 0 {
		return errors.New("--rounds and --seconds are at least 1, and there are no arguments")
	}
	return onTestbed(ctx, format, func(s *testbed) (report, error) {
		r := &sealReport{Rounds: rounds}
		return r, r.measure(ctx, s, rounds, time.Duration(seconds*float64(time.Second)))
	})
}

func (r *sealReport) measure(ctx context.Context, s *testbed, rounds int, measured time.Duration) error {
	config, err := s.WriteFile("oncegate.yml", configuration)
	if err != nil {
		return err
	}
	keyring, err := s.WriteFile("keyring", string((*seal.Ring)(nil).With(seal.NewKey(1), true).Text()))
	if err != nil {
		return err
	}
	receivers := []struct {
		env       []string
		perSecond *[]float64
		cpu       *[]float64
		node      *rig.Node
	}{
		{perSecond: &r.Plain, cpu: &r.PlainCPU},
		{perSecond: &r.Sealed, cpu: &r.SealedCPU, env: []string{"ONCEGATE_KEYRING_FILE=" + keyring}},
	}
	for i := range receivers {
		x := &receivers[i]
		if x.node, err = s.serve(ctx, config, "receive", x.env...); err != nil {
			return err
		}
	}
	run := uint32(0)
	for round := range rounds {
		for i := range receivers {
			x := &receivers[(i+round)%2]
			run++
			perSecond, cpu, err := s.receive(ctx, x.node, run, measured)
			if err != nil {
				return err
			}
			*x.perSecond, *x.cpu = append(*x.perSecond, perSecond), append(*x.cpu, cpu)
		}
		progress("round %d of %d  plain %8.0f/s  sealed %8.0f/s", round+1, rounds, r.Plain[round], r.Sealed[round])
	}
	if x, ok := newRatio("sealed / plain, acknowledged a second", r.Sealed, r.Plain, .85, 0); ok {
		r.Ratios = append(r.Ratios, x)
	}
	if x, ok := newRatio("sealed / plain, receiver's processor", r.SealedCPU, r.PlainCPU, 0, 0); ok {
		r.Ratios = append(r.Ratios, x)
	}
	return nil
}

// receive measures one receiver on empty tables.
func (s *testbed) receive(ctx context.Context, p *rig.Node, run uint32, measured time.Duration) (perSecond, cpu float64, err error) {
	if _, err := s.db.Exec(ctx, `TRUNCATE oncegate.inbox_event, oncegate.inbox_body, oncegate.effect, oncegate.river_job`); err != nil {
		return 0, 0, fmt.Errorf("emptying the tables: %w", err)
	}
	if _, err := s.db.Exec(ctx, `CHECKPOINT`); err != nil {
		return 0, 0, fmt.Errorf("emptying the tables: %w", err)
	}
	var before, after time.Duration
	var err1, err2 error
	w := workload{connections: 64, kind: onlyNew, bodySize: bodySize, warmUp: time.Second, measured: measured}
	got, err := generate(ctx, p.Public, run, w, func() { before, err1 = lab.CPU(p.PID()) }, func() { after, err2 = lab.CPU(p.PID()) })
	if err := errors.Join(err, err1, err2); err != nil {
		return 0, 0, err
	}
	if got.acked() == 0 {
		return 0, 0, errors.New("nothing was acknowledged")
	}
	return got.perSecond(), float64((after - before).Microseconds()) / float64(got.acked()), nil
}

func (r *sealReport) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "\n%d round(s) at 64 connections, bodies of 2 KiB; medians over the rounds and their range.\n", r.Rounds)
	fmt.Fprintf(w, "%s\n\n", r.server())
	for _, x := range []struct {
		name           string
		perSecond, cpu []float64
	}{{"plain", r.Plain, r.PlainCPU}, {"sealed", r.Sealed, r.SealedCPU}} {
		s := newSpread(x.perSecond)
		fmt.Fprintf(w, "  %-8s %8.0f/s  (%.0f to %.0f)  receiver's processor %4.0f us each\n", x.name, s.median, s.min, s.max, median(x.cpu))
	}
	if err := writeRatios(w, r.Ratios); err != nil {
		return err
	}
	return nil
}
