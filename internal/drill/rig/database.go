package rig

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

// Connect opens a connection to a database whose search_path is a schema.
func Connect(ctx context.Context, dsn, schema string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading the database's address: %w", err)
	}
	cfg.RuntimeParams["search_path"] = schema
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return conn, nil
}

// Querier is a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CountBy runs a query of two columns, a name and a count, and returns the counts by name.
func CountBy(ctx context.Context, db Querier, query string, args ...any) (map[string]int, error) {
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("counting: %w", err)
	}
	counts := map[string]int{}
	var name string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { counts[name] = n; return nil }); err != nil {
		return nil, fmt.Errorf("counting: %w", err)
	}
	return counts, nil
}

// A replay that is running counts too, because it makes dead effects pending again. A held effect is released by the one
// before it.
const countUnfinished = `
SELECT (SELECT count(*) FROM effect WHERE state IN ('pending', 'claimed', 'retry', 'held')) + (SELECT count(*) FROM replay WHERE state = 'running')`

// Rest waits until no effect is under way and no replay runs. It returns how many remain if that number reaches no new minimum
// within limit. There is no limit for the whole wait, because the backlog of a busy machine can take long. The search_path must be
// the schema.
func Rest(ctx context.Context, db Querier, limit time.Duration) (left int, err error) {
	least, progress := math.MaxInt, time.Now()
	for {
		if err := db.QueryRow(ctx, countUnfinished).Scan(&left); err != nil {
			return left, fmt.Errorf("counting what is not finished: %w", err)
		}
		if left < least {
			least, progress = left, time.Now()
		}
		if left == 0 || time.Since(progress) >= limit {
			return left, nil
		}
		if !Pause(ctx, 50*time.Millisecond) {
			return left, fmt.Errorf("waiting for the effects to come to rest: %w", ctx.Err())
		}
	}
}
