package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
)

// Bench is a gate that has not been started: deliveries queue up, so that a test decides which
// of them form a group.
type Bench struct {
	Pool *pgxpool.Pool // not the gate's
	Gate *gate.Gate

	GatePool *pgxpool.Pool
	Source   *inbox.Source
}

// NewBench returns a gate that runs once the test starts it; change may alter its
// configuration.
func NewBench(t *testing.T, change func(*gate.Config)) *Bench {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	b := &Bench{Pool: inboxtest.Open(t, url, schema, session.PoolAdmin, 8)}
	b.Source = inboxtest.Source(t, b.Pool, "stripe")
	cfg := gate.Config{Pool: inboxtest.Open(t, url, schema, session.PoolGate, 8), Enqueuer: Queue(), Clock: inboxtest.Clock(t, b.Pool)}
	b.GatePool = cfg.Pool
	if change != nil {
		change(&cfg)
	}
	var err error
	if b.Gate, err = gate.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Gate.Stop(context.WithoutCancel(t.Context())) })
	return b
}

// Start starts the gate.
func (b *Bench) Start(t *testing.T) {
	t.Helper()
	if err := b.Gate.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Answer is what one Accept returned.
type Answer struct {
	Receipt inbox.Receipt
	Err     error
}

// Together queues the admissions, then starts the gate, so that they are one group if
// there is one flusher.
func (b *Bench) Together(t *testing.T, admissions ...*inbox.Admission) []Answer {
	t.Helper()
	answers := make([]Answer, len(admissions))
	var wg sync.WaitGroup
	for i, a := range admissions {
		wg.Go(func() { answers[i].Receipt, answers[i].Err = b.Gate.Accept(t.Context(), a) })
	}
	b.Queued(t, len(admissions))
	b.Start(t)
	wg.Wait()
	return answers
}

// Queued waits until n deliveries wait.
func (b *Bench) Queued(t *testing.T, n int) {
	t.Helper()
	inboxtest.Until(t, fmt.Sprintf("%d waiting deliveries", n), func() bool { return b.Gate.Stats().QueuedEvents == n })
}

// Scan reads one row.
func (b *Bench) Scan(t *testing.T, sql string, into ...any) {
	t.Helper()
	if err := b.Pool.QueryRow(t.Context(), sql).Scan(into...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
