package storetest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Exec runs a statement.
func Exec(tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}
