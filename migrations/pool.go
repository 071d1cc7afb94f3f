package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/session"
)

const applicationName = "oncegate migrate"

// sessionSettings are what every connection of a migration has, whatever the database, the role or
// a pooler says. A statement takes as long as it needs; the server ends the one of a migrator that
// has died.
func sessionSettings(schema string) session.Settings {
	return session.Settings{
		"search_path": schema, "synchronous_commit": "on",
		"statement_timeout": "0", "idle_in_transaction_session_timeout": "0", "client_connection_check_interval": "5000",
	}
}

// prove refuses a pooler that shares sessions: the lock is a session's.
func (m *Migrator) prove(ctx context.Context) error {
	pool, err := openPool(ctx, m.cfg.URL, m.cfg.Schema)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := new(session.Guard).Prove(ctx, pool); errors.Is(err, session.ErrShared) {
		return err
	}
	return nil
}

// openPool opens a pool whose unqualified names are those of schema. Both migrators write their
// tables to wherever the search path leads, so a session that has another one is refused.
func openPool(ctx context.Context, url, schema string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// pgx's message may quote the url, password included.
		return nil, errors.New("reading the database url: not a PostgreSQL connection string; use postgres://user:password@host:5432/database")
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = applicationName
	history := new(session.History)
	session.Prepare(cfg.ConnConfig, sessionSettings(schema), history)
	cfg.BeforeConnect = history.Direct
	cfg.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the migration pool: %w", err)
	}
	return pool, nil
}

// readBack returns an error unless a new connection finds a schema that fits. What has written it
// is not asked: it would only repeat what it believes.
func (m *Migrator) readBack(ctx context.Context) error {
	pool, err := openPool(ctx, m.cfg.URL, m.cfg.Schema)
	if err != nil {
		return err
	}
	defer pool.Close()
	status, err := Read(ctx, pool)
	if err != nil {
		return err
	}
	status.Known = m.cfg.version
	if err := status.Check(); err != nil {
		return fmt.Errorf("the migration ended, but a new connection does not find that schema %s fits: %v", m.cfg.Schema, err) //nolint:errorlint // not a schema to migrate, but a migration that has failed
	}
	return nil
}
