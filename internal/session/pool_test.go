package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

type staleArgs struct{}

// Kind implements [river.JobArgs].
func (staleArgs) Kind() string { return "stale" }

// TestPreparedStatementsSurviveASchemaMadeAnew, and a table that a migration changes. All connections
// of a pool have prepared the same; once the first of them fails, the pool is renewed, and none of the
// others does. River's statements name types that are others then.
func TestPreparedStatementsSurviveASchemaMadeAnew(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	const size = 4
	work := inboxtest.Open(t, url, schema, session.PoolWork, size)
	queue := inboxtest.Open(t, url, schema, session.PoolQueue, size)
	client, err := river.NewClient(riverpgxv5.New(queue), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	type querier interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
	read := func(q querier, sql string, args ...any) error {
		rows, err := q.Query(t.Context(), sql, args...)
		rows.Close()
		return errors.Join(err, rows.Err())
	}
	effects := func(q querier) error { return read(q, "SELECT * FROM effect") }
	jobs := func(q querier) error {
		return read(q, "SELECT * FROM river_job WHERE state = ANY ($1::river_job_state[])", []string{"available"})
	}
	// Each statement runs on every connection, so that every one has prepared it.
	everywhere := func(pool *pgxpool.Pool, run func(querier) error) (failed int) {
		t.Helper()
		var conns []*pgxpool.Conn
		for range size {
			conn, err := pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			if run(conn) != nil {
				failed++
			}
			conn.Release()
		}
		return failed
	}
	inOrder := func() (failures int) {
		t.Helper()
		for range 2 * size {
			if err := effects(work); err != nil {
				failures++
			}
			if err := jobs(queue); err != nil {
				failures++
			}
			if _, err := client.Insert(t.Context(), staleArgs{}, nil); err != nil {
				failures++
			}
			if _, err := client.JobList(t.Context(), river.NewJobListParams()); err != nil {
				failures++
			}
		}
		return failures
	}
	for _, change := range []struct {
		name string
		make func() error
	}{
		{"made anew", func() error {
			if _, err := inboxtest.Open(t, url, schema, session.PoolAdmin, 1).Exec(t.Context(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
				return err
			}
			return migrations.Up(t.Context(), url, schema)
		}},
		{"changed", func() error {
			_, err := inboxtest.Open(t, url, schema, session.PoolAdmin, 1).Exec(t.Context(), "ALTER TABLE effect ADD COLUMN new int")
			return err
		}},
	} {
		if n := everywhere(work, effects) + everywhere(queue, jobs) + inOrder(); n != 0 {
			t.Fatalf("%s: %d statements failed before", change.name, n)
		}
		if err := change.make(); err != nil {
			t.Fatal(err)
		}
		// One of each pool finds it.
		if n := inOrder(); n > 2 {
			t.Errorf("%s: %d statements failed, want one of each pool at most", change.name, n)
		}
		if n := everywhere(work, effects) + everywhere(queue, jobs) + inOrder(); n != 0 {
			t.Errorf("%s: %d statements failed when the pools were renewed", change.name, n)
		}
	}
}
