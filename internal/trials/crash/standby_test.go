package crash_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/migrations"
)

// TestNothingIsAcknowledgedBeforeTheStandbyHasIt waits for a synchronous standby
// that never comes: neither a first delivery nor a duplicate may be
// acknowledged, not even a duplicate for which there is nothing to write. When
// the standby is no longer asked for, both are.
func TestNothingIsAcknowledgedBeforeTheStandbyHasIt(t *testing.T) {
	t.Parallel()
	server, err := devpg.Start(t.Context(), devpg.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	const schema = "oncegate"
	if err := migrations.Up(t.Context(), server.DSN(), schema); err != nil {
		t.Fatal(err)
	}
	admin := inboxtest.Open(t, server.DSN(), schema, session.PoolAdmin, 4)
	source := inboxtest.Source(t, admin, "stripe")
	g := func(deadline time.Duration) *gate.Gate {
		t.Helper()
		g, err := gate.New(gate.Config{
			Pool: inboxtest.Open(t, server.DSN(), schema, session.PoolGate, 4), Clock: inboxtest.Clock(t, admin),
			Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Deadline: deadline,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Stop(context.WithoutCancel(t.Context())) })
		return g
	}
	if _, err := g(5*time.Second).Accept(t.Context(), inboxtest.Admission(source, "known")); err != nil {
		t.Fatal(err)
	}

	standby(t, admin, "ghost")
	waiting := g(time.Second)
	// The row's lock is taken, so that the duplicate's count is skipped.
	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SELECT FROM inbox_event WHERE event_id = 'known' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"known", "new"} {
		if receipt, err := waiting.Accept(t.Context(), inboxtest.Admission(source, id)); !errors.Is(err, gate.ErrUnavailable) {
			t.Errorf("%s was acknowledged before the standby had it: %v, %v", id, receipt, err)
		}
	}

	standby(t, admin, "")
	after := g(5 * time.Second)
	for _, id := range []string{"known", "new"} {
		receipt, err := after.Accept(t.Context(), inboxtest.Admission(source, id))
		if err != nil {
			t.Errorf("%s, delivered again: %v", id, err)
		} else if receipt.Items[0].Outcome != inbox.Duplicate {
			t.Errorf("%s, delivered again, was %s, want duplicate", id, receipt.Items[0].Outcome)
		}
	}
}

// standby sets the server's synchronous standbys and waits until new
// connections know of them.
func standby(t *testing.T, pool *pgxpool.Pool, names string) {
	t.Helper()
	// ALTER SYSTEM is no transaction and takes no parameters; the reload's own
	// commit writes nothing and so waits for nobody.
	if _, err := pool.Exec(t.Context(), `ALTER SYSTEM SET synchronous_standby_names = '`+names+`'`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `SELECT pg_reload_conf()`); err != nil {
		t.Fatal(err)
	}
	inboxtest.Until(t, "the setting to be read", func() bool {
		var now string
		return pool.QueryRow(t.Context(), `SHOW synchronous_standby_names`).Scan(&now) == nil && now == names
	})
}
