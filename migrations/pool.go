package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/session"
)

const applicationName = "oncegate migrate"

// sessionSettings returns the settings of every migration connection, which override the settings of
// the database, the role and a pooler. Statements have no time limit. The server checks the connection
// so that it ends the statement of a migrator that has died.
func sessionSettings(schema string) session.Settings {
	return session.Settings{
		"search_path": schema, "synchronous_commit": "on",
		"statement_timeout": "0", "idle_in_transaction_session_timeout": "0", "client_connection_check_interval": "5000",
	}
}

// prove returns an error if a pooler shares sessions between clients, because the lock belongs to a
// session.
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

// openPool opens a pool whose search path is schema. Both migrators create their tables in the
// search path, so openPool refuses a session with another search path.
func openPool(ctx context.Context, url, schema string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// pgx's message may quote the URL, including the password.
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

// readBack returns an error unless a new connection finds a schema that fits. It does not use the
// migrating connection, whose own view may differ from the stored state.
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
