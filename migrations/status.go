package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrSchema is wrapped by the error of [Validate] for a schema on which this binary must not run.
var ErrSchema = errors.New("schema does not fit this binary")

// Status describes the schema of a database. A version of zero means that there is none.
type Status struct {
	Current, Known    int // Oncegate's own tables
	River, RiverKnown int // River's tables

	// Oldest and RiverOldest are the oldest versions that a program must know to run on the tables.
	// They are 0 if the database does not record them. A program that knows Current may always run
	// on the tables.
	Oldest, RiverOldest int

	// Tables identifies the tables. It changes when the tables are dropped and created again, which
	// loses everything that a process registered in the old ones.
	Tables int64
}

// querier runs the query that reads a status.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// to_regclass returns NULL for a missing table, so that an empty database has a status instead of
// causing an error.
const tablesExist = `
SELECT to_regclass('` + versionTable + `') IS NOT NULL, to_regclass('river_migration') IS NOT NULL, to_regclass('schema_version') IS NOT NULL`

const readOwn = `SELECT version FROM ` + versionTable

// The status contains the largest recorded oldest version, since each migration may need a program
// that knows it. The current version must have a record too.
const (
	statusOwn = `
SELECT greatest(max(version), 0), '` + versionTable + `'::regclass::oid::bigint FROM ` + versionTable

	statusRiver = `
SELECT coalesce(max(version), 0) FROM river_migration WHERE line = 'main'`

	statusStated = `
SELECT coalesce(max(s.oldest) FILTER (WHERE s.tables = 'oncegate' AND s.version <= own.version AND own.stated), 0),
    coalesce(max(s.oldest) FILTER (WHERE s.tables = 'river' AND s.version <= river.version AND river.stated), 0)
FROM (SELECT v.version, EXISTS (SELECT FROM schema_version WHERE tables = 'oncegate' AND version = v.version) AS stated
        FROM (` + statusOwn + `) v (version, tables)) own,
    (SELECT v.version, EXISTS (SELECT FROM schema_version WHERE tables = 'river' AND version = v.version) AS stated
        FROM (` + statusRiver + `) v (version)) river,
    schema_version s`
)

// Read reads the status of the schema that the pool's search path names.
func Read(ctx context.Context, pool *pgxpool.Pool) (Status, error) { return readStatus(ctx, pool) }

func readStatus(ctx context.Context, db querier) (Status, error) {
	// Every process reads the status every few seconds. In the usual case that all tables exist, it
	// runs only one statement.
	status, err := readVersions(ctx, db, true, true, true)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != undefinedTable {
		return status, err
	}
	var own, river, stated bool
	if err := db.QueryRow(ctx, tablesExist).Scan(&own, &river, &stated); err != nil {
		return status, fmt.Errorf("reading the schema's version: %w", err)
	}
	return readVersions(ctx, db, own, river, stated)
}

// undefinedTable is PostgreSQL's SQLSTATE for a missing table.
const undefinedTable = "42P01"

// readVersions reads the versions of the existing tables in one statement, so that it sees a
// consistent state during a migration.
func readVersions(ctx context.Context, db querier, own, river, stated bool) (Status, error) {
	status := Status{Known: Version, RiverKnown: RiverVersion}
	statement := "SELECT own.*, river.*, stated.* FROM "
	statement += either(own, statusOwn, "SELECT 0, 0") + " own, "
	statement += either(river, statusRiver, "SELECT 0") + " river, "
	statement += either(own && river && stated, statusStated, "SELECT 0, 0") + " stated"
	err := db.QueryRow(ctx, statement).Scan(&status.Current, &status.Tables, &status.River, &status.Oldest, &status.RiverOldest)
	if err != nil {
		return status, fmt.Errorf("reading the schema's version: %w", err)
	}
	return status, nil
}

func either(is bool, then, otherwise string) string {
	if is {
		return "(" + then + ")"
	}
	return "(" + otherwise + ")"
}

// Validate returns nil if this binary may run on the schema, and otherwise an error of one line
// that names the command to run. Only `serve` and similar commands call it.
func Validate(ctx context.Context, pool *pgxpool.Pool) error {
	status, err := Read(ctx, pool)
	if err != nil {
		return err
	}
	return status.Check()
}

// Check returns nil if this binary may run on the schema. See [Validate].
func (s Status) Check() error {
	if err := s.newer(); err != nil {
		return err
	}
	switch {
	case s.Current < s.Known:
		return fmt.Errorf("%w: it is at %d, this binary needs %d: run `oncegate migrate up`", ErrSchema, s.Current, s.Known)
	case s.River < s.RiverKnown:
		return fmt.Errorf("%w: River's tables are at %d, this binary needs %d: run `oncegate migrate up`", ErrSchema, s.River, s.RiverKnown)
	default:
		return nil
	}
}

// Target returns nil if this binary can revert the schema to the version.
func (s Status) Target(version int) error {
	switch {
	case s.Current > s.Known:
		return s.newerFiles()
	case version < 1 || version >= s.Current:
		return fmt.Errorf("%w: it is at %d, and %d is no version below that", ErrSchema, s.Current, version)
	}
	return nil
}

func (s Status) newerFiles() error {
	return fmt.Errorf("%w: it is at %d, and this binary has the migrations up to %d: use the oncegate that made it", ErrSchema, s.Current, s.Known)
}

// newer returns an error if the schema is newer than this binary knows and does not allow this
// binary.
func (s Status) newer() error {
	switch {
	case s.Current > s.Known && (s.Oldest == 0 || s.Oldest > s.Known):
		return fmt.Errorf("%w: it is at %d%s, this binary knows %d: run a newer oncegate", ErrSchema, s.Current, needs(s.Oldest), s.Known)
	case s.River > s.RiverKnown && (s.RiverOldest == 0 || s.RiverOldest > s.RiverKnown):
		return fmt.Errorf("%w: River's tables are at %d%s, this binary knows %d: run a newer oncegate", ErrSchema, s.River, needs(s.RiverOldest), s.RiverKnown)
	default:
		return nil
	}
}

func needs(oldest int) string {
	if oldest == 0 {
		return ""
	}
	return fmt.Sprintf(" and needs a program of version %d", oldest)
}
