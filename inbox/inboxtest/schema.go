// Package inboxtest is for tests of anything that stores: a migrated schema a
// test on a real PostgreSQL, factories, faults that strike at the n-th database
// call, and the museum of wrong gates.
package inboxtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/session"
)

// URL is the database the tests use. A test without one fails, it never skips.
func URL(tb testing.TB) string {
	tb.Helper()
	url := os.Getenv("TEST_DATABASE_URL")
	if url == "" {
		tb.Fatal("TEST_DATABASE_URL is not set: run the tests by ./scripts/test, which starts a PostgreSQL (tests never skip the database)")
	}
	return url
}

// EmptySchema names a schema that does not exist yet and is dropped when the
// test has passed. After a failure it is kept, and its name is logged.
func EmptySchema(tb testing.TB) (url, schema string) {
	tb.Helper()
	url = URL(tb)
	schema = uniqueName()
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("schema kept for inspection: %s", schema)
			return
		}
		drop(tb, url, schema)
	})
	return url, schema
}

// uniqueName returns a name for a new schema or database. It starts with the time, so a sorted list shows the oldest first.
func uniqueName() string {
	return "test_" + time.Now().UTC().Format("0102150405") + "_" + strings.ToLower(rand.Text()[:10])
}

func drop(tb testing.TB, url, schema string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		tb.Errorf("dropping schema %s: %v", schema, err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE"); err != nil {
		tb.Errorf("dropping schema %s: %v", schema, err)
	}
}

// Pool is a pool on a new migrated schema of the test.
func Pool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	url, schema := Schema(tb)
	return Open(tb, url, schema, session.PoolAdmin, 8)
}

// Open opens a pool on a schema and closes it at the end of the test.
func Open(tb testing.TB, url, schema string, role session.PoolRole, conns int32) *pgxpool.Pool {
	tb.Helper()
	pool, err := session.OpenPool(tb.Context(), url, schema, role, conns)
	if err != nil {
		tb.Fatalf("opening a pool on schema %s: %v", schema, err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// OtherDatabase is the address of another database of the same server, which contains no tables of
// ours.
func OtherDatabase(tb testing.TB, address string) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	if u.Path == "/postgres" {
		return database(address, "template1")
	}
	return database(address, "postgres")
}
