package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// subject is one of the programs that the benchmark compares.
type subject string

const (
	subjectPgbench subject = "a"
	subjectNaive   subject = "b"
	subjectGate    subject = "c"
	subjectWorked  subject = "d"
	subjectAgainst subject = "e"
	subjectBare    subject = "f"
)

var names = map[subject]string{
	subjectPgbench: "pgbench, one 2 KB row a commit",
	subjectNaive:   "naive receiver, one transaction a delivery",
	subjectGate:    "oncegate serve --role receive",
	subjectWorked:  "the same, its jobs worked beside it",
	subjectAgainst: "oncegate of the other revision",
	subjectBare:    "bare echo with the same HMAC, no database",
}

// cell is one measurement.
type cell struct {
	Subject     subject `json:"subject"`
	Connections int     `json:"connections"`
	Kind        kind    `json:"kind"`
	Round       int     `json:"round"`

	Acked     int     `json:"acked"`
	Failed    int     `json:"failed"`
	PerSecond float64 `json:"acked_per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`

	// Processor seconds per 1,000 deliveries.
	ReceiverCPU float64 `json:"receiver_cpu_seconds_per_1000"`
	PostgresCPU float64 `json:"postgres_cpu_seconds_per_1000"`

	// WorkedPerSecond is how many effects were done a second in the measured time; for subjectWorked only.
	WorkedPerSecond float64 `json:"worked_per_second,omitempty"`

	// Rate is the number of arrivals a second in an open loop; 0 in a closed loop.
	Rate float64 `json:"rate,omitempty"`
	P999 float64 `json:"p999_ms,omitempty"`
}

func (c *cell) cpu() float64 { return c.ReceiverCPU + c.PostgresCPU }

// plan returns what a round measures, in order. Subjects that are compared are next to each other.
func (b *receiveBench) plan(round int) []cell {
	if b.against != "" {
		return planAgainst(round)
	}
	if b.only != "" {
		var cells []cell
		for _, s := range b.only {
			cells = append(cells, cell{Subject: subject(s), Connections: 64, Kind: onlyNew, Round: round})
		}
		return cells
	}
	cells := []cell{
		{Subject: subjectPgbench, Connections: 64, Kind: onlyNew},
		{Subject: subjectNaive, Connections: 64, Kind: onlyNew},
		{Subject: subjectBare, Connections: 64, Kind: onlyNew},
		{Subject: subjectGate, Connections: 64, Kind: onlyNew},
		{Subject: subjectWorked, Connections: 64, Kind: onlyNew},
		{Subject: subjectGate, Connections: 64, Kind: duplicates},
		{Subject: subjectNaive, Connections: 1, Kind: onlyNew},
		{Subject: subjectGate, Connections: 1, Kind: onlyNew},
		{Subject: subjectNaive, Connections: 64, Kind: halfDuplicates},
		{Subject: subjectGate, Connections: 64, Kind: halfDuplicates},
		{Subject: subjectGate, Connections: 256, Kind: onlyNew},
		{Subject: subjectPgbench, Connections: 1, Kind: onlyNew},
	}
	if !b.quick {
		cells = append(cells,
			cell{Subject: subjectNaive, Connections: 256, Kind: onlyNew},
			cell{Subject: subjectPgbench, Connections: 256, Kind: onlyNew},
			cell{Subject: subjectGate, Connections: 256, Kind: halfDuplicates},
			cell{Subject: subjectNaive, Connections: 256, Kind: halfDuplicates})
		if round == 1 {
			cells = append(cells,
				cell{Subject: subjectNaive, Connections: 1, Kind: halfDuplicates},
				cell{Subject: subjectGate, Connections: 1, Kind: halfDuplicates},
				cell{Subject: subjectWorked, Connections: 256, Kind: onlyNew})
		}
	}
	for i := range cells {
		cells[i].Round = round
	}
	return cells
}

func (b *receiveBench) measure(ctx context.Context) (*receiveReport, error) {
	r := &receiveReport{Rounds: b.rounds, SecondsEach: b.options.seconds, names: names}
	for round := 1; round <= b.rounds; round++ {
		b.cellsPlanned += len(b.plan(round))
	}
	alone := b.only != "" || b.against != ""
	if !alone {
		b.cellsPlanned += 3 // the open loop twice, and the memory
	}
	for round := 1; round <= b.rounds; round++ {
		for _, c := range b.plan(round) {
			if err := b.measureCell(ctx, &c); err != nil {
				return nil, err
			}
			r.Cells = append(r.Cells, c)
		}
	}
	r.summarise()
	if alone {
		return r, nil
	}
	for _, c := range []cell{
		{Subject: subjectGate, Connections: openConnections, Kind: onlyNew, Rate: r.peak(subjectGate) / 2},
		{Subject: subjectNaive, Connections: openConnections, Kind: onlyNew, Rate: r.peak(subjectNaive) / 2},
	} {
		if err := b.measureCell(ctx, &c); err != nil {
			return nil, err
		}
		r.OpenLoop = append(r.OpenLoop, c)
	}
	return r, b.memory(ctx, r)
}

// measureCell makes the measurement of a cell.
func (b *receiveBench) measureCell(ctx context.Context, c *cell) (err error) {
	if err := b.empty(ctx); err != nil {
		return err
	}
	var got *outcome
	var receiver, postgres time.Duration
	watched, address := b.gate.Process, b.gate.Public
	switch c.Subject {
	case subjectPgbench:
		watched = nil
	case subjectNaive:
		watched, address = b.naive, b.naiveAddress
	case subjectGate:
	case subjectAgainst:
		watched, address = b.other.Process, b.other.Public
	case subjectBare:
		watched, address = b.bare, b.bareAddress
	case subjectWorked:
		worker, err := b.start(ctx, "work")
		if worker != nil {
			defer func() { err = errors.Join(err, worker.Stop(30*time.Second)) }()
		}
		if err != nil {
			return err
		}
	}
	var cpuErr error
	begin := func() { receiver, postgres, cpuErr = b.cpu(watched) }
	end := func() {
		r, p, err := b.cpu(watched)
		receiver, postgres, cpuErr = r-receiver, p-postgres, errors.Join(cpuErr, err)
	}
	measured := time.Duration(b.seconds * float64(time.Second))
	var done int
	if c.Subject == subjectPgbench {
		got, err = b.pgbench(ctx, c.Connections, 0, measured, begin, end)
	} else {
		w := workload{
			connections: c.Connections, kind: c.Kind, bodySize: bodySize, rate: c.Rate,
			warmUp: 500 * time.Millisecond, measured: measured,
		}
		if c.Kind == duplicates {
			w.warmUp *= 2
		}
		b.runs++
		got, err = generate(ctx, address, b.runs, w, begin, end)
		if err == nil && c.Subject == subjectWorked {
			done, err = b.worked(ctx)
			c.WorkedPerSecond = float64(done) / (w.warmUp + w.measured).Seconds()
		}
	}
	if err := errors.Join(err, cpuErr); err != nil {
		return fmt.Errorf("measuring %s at %d connections: %w", names[c.Subject], c.Connections, err)
	}
	c.fill(got, receiver, postgres)
	b.cellsDone++
	if c.Rate > 0 {
		c.Kind += openLoop
	}
	progress("%3d/%d  %s  %-44s %4d conns  %-17s %8.0f/s  p50 %6.2f ms  p99 %6.2f ms", b.cellsDone, b.cellsPlanned, string(c.Subject),
		names[c.Subject], c.Connections, c.Kind, c.PerSecond, c.P50, c.P99)
	return nil
}

func (c *cell) fill(got *outcome, receiver, postgres time.Duration) {
	c.Acked, c.Failed, c.PerSecond = got.acked(), got.failed, got.perSecond()
	c.P50, c.P99 = got.quantile(.5), got.quantile(.99)
	if c.Rate > 0 {
		c.P999 = got.quantile(.999)
	}
	if c.Acked > 0 {
		c.ReceiverCPU = receiver.Seconds() * 1000 / float64(c.Acked)
		c.PostgresCPU = postgres.Seconds() * 1000 / float64(c.Acked)
	}
}

func (b *receiveBench) cpu(watched *rig.Process) (receiver, postgres time.Duration, err error) {
	if watched != nil {
		if receiver, err = lab.CPU(watched.PID()); err != nil {
			return 0, 0, err
		}
	}
	postgres, err = lab.FamilyCPU(b.Server.PID())
	return receiver, postgres, err
}

// empty truncates the tables, so that their growth favours no subject, and lets the server write everything that is
// left to write.
func (b *receiveBench) empty(ctx context.Context) error {
	_, err := b.db.Exec(ctx, `TRUNCATE oncegate.inbox_event, oncegate.inbox_body, oncegate.effect, oncegate.effect_attempt, oncegate.river_job, bench.row`)
	if err == nil {
		_, err = b.db.Exec(ctx, `CHECKPOINT`)
	}
	if err != nil {
		return fmt.Errorf("emptying the tables: %w", err)
	}
	return nil
}

func (b *receiveBench) worked(ctx context.Context) (int, error) {
	var done int
	if err := b.db.QueryRow(ctx, `SELECT count(*) FROM oncegate.effect WHERE state = 'done'`).Scan(&done); err != nil {
		return 0, fmt.Errorf("counting effects: %w", err)
	}
	return done, nil
}

// memory sends large bodies over many connections and reads the largest memory that the receiver has ever had.
func (b *receiveBench) memory(ctx context.Context, r *receiveReport) error {
	if err := b.empty(ctx); err != nil {
		return err
	}
	b.runs++
	w := workload{connections: 256, kind: onlyNew, bodySize: 64 << 10, warmUp: 500 * time.Millisecond, measured: 3 * time.Second}
	got, err := generate(ctx, b.gate.Public, b.runs, w, func() {}, func() {})
	if err != nil {
		return fmt.Errorf("measuring memory: %w", err)
	}
	peak, err := lab.PeakRSS(b.gate.PID())
	if err != nil {
		return err
	}
	r.Memory = memory{Connections: w.connections, BodyBytes: w.bodySize, PerSecond: got.perSecond(), Overloaded: got.failed, PeakMiB: float64(peak) / (1 << 20)}
	b.cellsDone++
	progress("%3d/%d  memory: %.0f MiB at 256 connections with 64 KiB bodies", b.cellsDone, b.cellsPlanned, r.Memory.PeakMiB)
	return nil
}
