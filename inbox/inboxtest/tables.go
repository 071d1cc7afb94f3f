package inboxtest

import (
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Tables is a hash of the rows of every table of the pool's schema, by name: two
// of them show what was written in between. Partitions count as tables.
func Tables(tb testing.TB, pool *pgxpool.Pool) map[string]string {
	tb.Helper()
	rows, err := pool.Query(tb.Context(), `
		SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'`)
	if err != nil {
		tb.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	out := make(map[string]string, len(names))
	for _, name := range names {
		var hash string
		query := `SELECT count(*) || ':' || coalesce(md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))), '') FROM ` + pgx.Identifier{name}.Sanitize() + ` t`
		if err := pool.QueryRow(tb.Context(), query).Scan(&hash); err != nil {
			tb.Fatal(err)
		}
		out[name] = hash
	}
	return out
}

// Changed names the tables whose rows differ between two results of [Tables],
// sorted.
func Changed(before, after map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			out = append(out, name)
		}
	}
	return out
}
