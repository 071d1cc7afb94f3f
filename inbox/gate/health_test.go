package gate_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/internal/session"
)

// failing is a connection all of whose batches fail in the same way.
type failing struct{ err error }

func (c failing) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults { return failed{err: c.err} }
func (failing) Warned() bool                                             { return false }
func (failing) Release(bool)                                             {}
func (failing) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}

// failed is what comes of such a batch.
type failed struct {
	pgx.BatchResults
	err error
}

func (f failed) Close() error { return f.err }

// TestWhatMakesAGateNotReady: failures that any delivery would have met, for five seconds with
// nothing else between them. What a delivery brought itself never does.
func TestWhatMakesAGateNotReady(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	source := inboxtest.Source(t, pool, "stripe")
	for _, test := range []struct {
		name   string
		err    error
		counts bool
	}{
		{"a lost connection", errors.New("connection reset"), true},
		{"a full disk", &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "53100", Message: "could not extend file"}, true},
		{"a read-only database", &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "25006"}, true},
		{"a value that cannot be stored", &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "22P02"}, false},
		{"a row that is locked", &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "55P03", Where: "while inserting index tuple (0,1)"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var ahead atomic.Int64
			now := func() time.Time { return time.Unix(1_800_000_000, 0).Add(time.Duration(ahead.Load())) }
			after := func(d time.Duration) time.Time { ahead.Add(int64(d)); return now() }
			var working atomic.Bool
			connections := inboxtest.Open(t, url, schema, session.PoolGate, 4)
			direct := new(inboxtest.Fault).Acquire(connections)
			g, err := gate.New(gate.Config{
				Pool: connections, Enqueuer: storetest.Queue(), Clock: inbox.NewClock(pool, now),
				Acquire: func(ctx context.Context) (gate.Conn, error) {
					if working.Load() {
						return direct(ctx)
					}
					return failing{test.err}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = g.Stop(context.WithoutCancel(t.Context())) })
			fails := func() {
				t.Helper()
				if _, err := g.Accept(t.Context(), inboxtest.Admission(source, "evt_"+test.name)); !errors.Is(err, gate.ErrUnavailable) {
					t.Fatalf("got %v, want %v", err, gate.ErrUnavailable)
				}
			}
			fails()
			after(time.Hour)
			if err := g.Ready(); err != nil {
				t.Errorf("after one failure: %v", err)
			}
			fails()
			if err := g.Ready(); (err != nil) != test.counts {
				t.Errorf("after nothing but failures for an hour: %v", err)
			}
			if g.Committed(after(gate.HealthyAfter-time.Second), false); (g.Ready() != nil) != test.counts {
				t.Errorf("a commit right after the last failure: %v", g.Ready())
			}
			if g.Committed(after(time.Second), false); g.Ready() != nil {
				t.Errorf("a commit after a quiet time: %v", g.Ready())
			}
			fails()
			after(time.Hour)
			fails()
			working.Store(true)
			if _, err := g.Accept(t.Context(), inboxtest.Admission(source, "evt_"+test.name)); err != nil {
				t.Fatal(err)
			}
			if err := g.Ready(); err != nil {
				t.Errorf("after a commit: %v", err)
			}
		})
	}
}
