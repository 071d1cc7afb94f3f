package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/session"
)

// openPool opens a pool whose unqualified names are those of schema. Both migrators write their
// tables to wherever the search path leads, so a session that has another one is refused.
func openPool(ctx context.Context, url, schema string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// pgx's message may quote the url, password included.
		return nil, errors.New("reading the database url: not a PostgreSQL connection string; use postgres://user:password@host:5432/database")
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "oncegate migrate"
	session.Prepare(cfg.ConnConfig, session.Settings{"search_path": schema, "synchronous_commit": "on"})
	cfg.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the migration pool: %w", err)
	}
	return pool, nil
}

// readBack returns an error unless a new connection finds the schema current. What has written it
// is not asked: it would only repeat what it believes.
func readBack(ctx context.Context, url, schema string) error {
	pool, err := openPool(ctx, url, schema)
	if err != nil {
		return err
	}
	defer pool.Close()
	status, err := Read(ctx, pool)
	if err != nil {
		return err
	}
	if err := status.Check(); err != nil {
		return fmt.Errorf("the migration ended, but a new connection does not find schema %s current: %v", schema, err) //nolint:errorlint // not a schema to migrate, but a migration that has failed
	}
	return nil
}
