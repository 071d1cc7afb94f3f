package storetest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/relay"
	"github.com/oncegate/oncegate/internal/session"
)

// Outbox is a source open to emit, a gate that runs, and the parts of a relay.
type Outbox struct {
	*Bench

	Schema string
	Clock  *inbox.Clock
	Work   *pgxpool.Pool
}

// NewOutbox returns an empty outbox.
func NewOutbox(t *testing.T) *Outbox {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	o := &Outbox{Bench: &Bench{Pool: inboxtest.Open(t, url, schema, session.PoolAdmin, 8)}, Schema: schema}
	o.Source = inboxtest.Source(t, o.Pool, "orders")
	if _, err := o.Pool.Exec(t.Context(), `UPDATE source SET emit = true`); err != nil {
		t.Fatal(err)
	}
	o.Clock, o.Work = inboxtest.Clock(t, o.Pool), inboxtest.Open(t, url, schema, session.PoolWork, 8)
	var err error
	o.Gate, err = gate.New(gate.Config{Pool: inboxtest.Open(t, url, schema, session.PoolGate, 8), Enqueuer: Queue(), Clock: o.Clock})
	if err != nil {
		t.Fatal(err)
	}
	o.Start(t)
	t.Cleanup(func() { _ = o.Gate.Stop(context.WithoutCancel(t.Context())) })
	return o
}

// Relay returns a relay of the outbox into the gate, with batch rows at a time.
func (o *Outbox) Relay(t *testing.T, gate inbox.Accepter, batch int) *relay.Relay {
	t.Helper()
	r, err := relay.New(relay.Config{
		Pool: o.Work, Gate: gate, Clock: o.Clock, Logger: slog.New(slog.DiscardHandler), Batch: batch,
		Sources: map[string]*inbox.Source{o.Source.Name: o.Source}, Every: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop(context.WithoutCancel(t.Context())) })
	return r
}

// Counts counts events and rows of the outbox.
func (o *Outbox) Counts(t *testing.T) (events, waiting int) {
	t.Helper()
	err := o.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM inbox_event), (SELECT count(*) FROM outbox)`).Scan(&events, &waiting)
	if err != nil {
		t.Fatal(err)
	}
	return events, waiting
}

// Want reports other counts as an error.
func (o *Outbox) Want(t *testing.T, events, waiting int) {
	t.Helper()
	if e, w := o.Counts(t); e != events || w != waiting {
		t.Errorf("%d events and %d rows in the outbox, want %d and %d", e, w, events, waiting)
	}
}

// RunRelay relays once, and returns the number of rows that it relayed.
func RunRelay(t *testing.T, r *relay.Relay) int {
	t.Helper()
	n, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}
