// Package migrations makes and checks the schema: Oncegate's own tables by
// golang-migrate files, River's by its own migrator at a pinned version, both
// in one command under one lock.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"

	"github.com/golang-migrate/migrate/v4"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/oncegate/oncegate/session"
)

//go:embed sql/*.sql
var files embed.FS

const (
	// Version is the version of Oncegate's own tables that this binary needs.
	Version = 21

	// RiverVersion is the version of River's tables that this binary needs. It is
	// pinned: a new River may bring indexes that migration 2 drops, and the gate
	// writes river_job by SQL of its own.
	RiverVersion = 8

	// versionTable is golang-migrate's record. Stored: never change.
	versionTable = "oncegate_migration"
)

// lockUp is the session lock that all of [Up] and [Down] run under, so that
// several processes may call them at once; "once" in its first half.
const lockUp int64 = 0x6f_6e_63_65_00_00_00_02

// Up brings the schema to the version this binary needs, creating it if it is
// missing. Several processes may call it at once; the later ones find nothing
// to do. It needs a direct or session-pooled connection, for its lock. What it has done
// is read back over a new connection: Up returns an error unless the schema is current.
func Up(ctx context.Context, url, schema string) error {
	if err := up(ctx, url, schema); err != nil {
		return err
	}
	return readBack(ctx, url, schema)
}

func up(ctx context.Context, url, schema string) error {
	return locked(ctx, url, schema, func(r *runner) error {
		if _, err := r.conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize()); err != nil {
			return fmt.Errorf("making schema %s: %w", schema, err)
		}
		status, err := Read(ctx, r.pool)
		if err != nil {
			return err
		}
		if err := status.newer(); err != nil {
			return err
		}
		if status.River < RiverVersion {
			if err := r.river(ctx, rivermigrate.DirectionUp, RiverVersion); err != nil {
				return err
			}
		}
		return r.own(func(m *migrate.Migrate) error { return m.Migrate(Version) })
	})
}

// Down takes everything away, River's tables included; the schema itself stays.
// All data is lost.
func Down(ctx context.Context, url, schema string) error {
	return locked(ctx, url, schema, func(r *runner) error {
		status, err := Read(ctx, r.pool)
		if err != nil {
			return err
		}
		if status.Current > 0 {
			if err := r.own(func(m *migrate.Migrate) error { return m.Down() }); err != nil {
				return err
			}
		}
		if _, err := r.pool.Exec(ctx, "DROP TABLE IF EXISTS "+versionTable); err != nil {
			return fmt.Errorf("dropping the record of versions: %w", err)
		}
		if status.River == 0 {
			return nil
		}
		return r.river(ctx, rivermigrate.DirectionDown, -1)
	})
}

type runner struct {
	conn   *pgx.Conn
	pool   *pgxpool.Pool
	schema string
}

// locked runs f with a pool on the schema, while a connection of its own holds
// the lock. Closing that connection gives the lock back, also when f panics.
func locked(ctx context.Context, url, schema string, f func(*runner) error) error {
	pool, err := openPool(ctx, url, schema)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if session.Pooled(conn) {
		// The lock is a session's, and so are golang-migrate's statements.
		if err := new(session.Guard).Prove(ctx, pool); errors.Is(err, session.ErrShared) {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", lockUp); err != nil {
		return fmt.Errorf("waiting for another migration: %w", err)
	}
	return f(&runner{conn: conn, pool: pool, schema: schema})
}

func (r *runner) river(ctx context.Context, direction rivermigrate.Direction, target int) error {
	m, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("preparing River's migrations: %w", err)
	}
	if _, err := m.Migrate(ctx, direction, &rivermigrate.MigrateOpts{TargetVersion: target}); err != nil {
		return fmt.Errorf("migrating River's tables: %w", err)
	}
	return nil
}

func (r *runner) own(run func(*migrate.Migrate) error) (err error) {
	source, err := iofs.New(files, "sql")
	if err != nil {
		return fmt.Errorf("reading the embedded migrations: %w", err)
	}
	var db = stdlib.OpenDBFromPool(r.pool)
	driver, err := migratepgx.WithInstance(db, &migratepgx.Config{MigrationsTable: versionTable, SchemaName: r.schema})
	if err != nil {
		return errors.Join(fmt.Errorf("preparing the migrations: %w", err), source.Close())
	}
	m, err := migrate.NewWithInstance("embedded", source, "pgx5", driver)
	if err != nil {
		return errors.Join(fmt.Errorf("preparing the migrations: %w", err), source.Close(), driver.Close())
	}
	defer func() {
		sourceErr, dbErr := m.Close()
		err = errors.Join(err, sourceErr, dbErr)
	}()
	if err := run(m); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return fmt.Errorf("migrating Oncegate's tables: %w", err)
	}
	return nil
}
