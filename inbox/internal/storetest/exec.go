package storetest

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Exec runs a statement.
func Exec(tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Analyze analyses every table of the pool's schema. Tests must not run ANALYZE without names: it also locks the tables of
// other tests, which can deadlock with the statement that drops their schemas.
func Analyze(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	rows, err := pool.Query(tb.Context(), `SELECT oid::regclass::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')`)
	if err != nil {
		tb.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	if len(tables) == 0 {
		tb.Fatal("there is no table to analyse")
	}
	Exec(tb, pool, "ANALYZE "+strings.Join(tables, ", "))
}
