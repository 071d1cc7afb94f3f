package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrSchema is wrapped by what [Validate] returns for a schema that this binary
// must not run on.
var ErrSchema = errors.New("schema does not fit this binary")

// Status is what the database says about its schema. Zero versions mean none.
type Status struct {
	Current, Known    int // Oncegate's own tables
	River, RiverKnown int // River's tables

	// Oldest and RiverOldest are the oldest versions that a program must know to run on
	// the tables as they are; 0 if the database does not say, which it does from version
	// 22 on. A program that knows Current may always run on them.
	Oldest, RiverOldest int

	// Dirty: a program that did not know version 22 was cut off in a migration.
	Dirty bool

	// Tables identifies the tables. Those that were dropped and made anew are others, and
	// hold nothing of what a process registered in the old ones.
	Tables int64
}

// querier is what a status is read by.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// to_regclass gives NULL for a table that is not there, so that an empty
// database is a status and not an error.
const tablesExist = `
SELECT to_regclass('` + versionTable + `') IS NOT NULL, to_regclass('river_migration') IS NOT NULL, to_regclass('schema_version') IS NOT NULL`

const readOwn = `SELECT version, dirty FROM ` + versionTable

// The oldest of the versions that say so counts, since each may need a program that
// knows it. The newest must say so.
const (
	statusOwn = `
SELECT greatest(max(version), 0), coalesce(bool_or(dirty), false), '` + versionTable + `'::regclass::oid::bigint FROM ` + versionTable

	statusRiver = `
SELECT coalesce(max(version), 0) FROM river_migration WHERE line = 'main'`

	statusStated = `
SELECT coalesce(max(s.oldest) FILTER (WHERE s.tables = 'oncegate' AND s.version <= own.version AND own.stated), 0),
    coalesce(max(s.oldest) FILTER (WHERE s.tables = 'river' AND s.version <= river.version AND river.stated), 0)
FROM (SELECT v.version, EXISTS (SELECT FROM schema_version WHERE tables = 'oncegate' AND version = v.version) AS stated
        FROM (` + statusOwn + `) v (version, dirty, tables)) own,
    (SELECT v.version, EXISTS (SELECT FROM schema_version WHERE tables = 'river' AND version = v.version) AS stated
        FROM (` + statusRiver + `) v (version)) river,
    schema_version s`
)

// Read reads the status of the schema that the pool's search path names.
func Read(ctx context.Context, pool *pgxpool.Pool) (Status, error) { return readStatus(ctx, pool) }

func readStatus(ctx context.Context, db querier) (Status, error) {
	// Every process asks this every few seconds: where all tables are there, which is the
	// rule, it is one statement.
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

// undefinedTable is PostgreSQL's code for a table that is not there.
const undefinedTable = "42P01"

// readVersions reads the versions of the tables that are there, in one statement, which
// sees one moment of a migration.
func readVersions(ctx context.Context, db querier, own, river, stated bool) (Status, error) {
	status := Status{Known: Version, RiverKnown: RiverVersion}
	statement := "SELECT own.*, river.*, stated.* FROM "
	statement += either(own, statusOwn, "SELECT 0, false, 0") + " own, "
	statement += either(river, statusRiver, "SELECT 0") + " river, "
	statement += either(own && river && stated, statusStated, "SELECT 0, 0") + " stated"
	err := db.QueryRow(ctx, statement).Scan(&status.Current, &status.Dirty, &status.Tables, &status.River, &status.Oldest, &status.RiverOldest)
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

// Validate returns nil if this binary may run on the schema, and else one line that
// says what to run. Only `serve` and its like call it.
func Validate(ctx context.Context, pool *pgxpool.Pool) error {
	status, err := Read(ctx, pool)
	if err != nil {
		return err
	}
	return status.Check()
}

// Check returns nil if this binary may run on the schema; see [Validate].
func (s Status) Check() error {
	if err := s.newer(); err != nil {
		return err
	}
	switch {
	case s.Dirty:
		return s.dirty()
	case s.Current < s.Known:
		return fmt.Errorf("%w: it is at %d, this binary needs %d: run `oncegate migrate up`", ErrSchema, s.Current, s.Known)
	case s.River < s.RiverKnown:
		return fmt.Errorf("%w: River's tables are at %d, this binary needs %d: run `oncegate migrate up`", ErrSchema, s.River, s.RiverKnown)
	default:
		return nil
	}
}

// Target returns nil if the schema can be taken down to the version by this binary.
func (s Status) Target(version int) error {
	switch {
	case s.Current > s.Known:
		return s.newerFiles()
	case s.Dirty:
		return s.dirty()
	case version < 1 || version >= s.Current:
		return fmt.Errorf("%w: it is at %d, and %d is no version below that", ErrSchema, s.Current, version)
	}
	return nil
}

func (s Status) newerFiles() error {
	return fmt.Errorf("%w: it is at %d, and this binary has the migrations up to %d: use the oncegate that made it", ErrSchema, s.Current, s.Known)
}

func (s Status) dirty() error {
	return fmt.Errorf("%w: a migration to %d was interrupted: run `oncegate migrate repair`, which finds out how far it came", ErrSchema, s.Current)
}

// newer returns why this binary may not run on a schema that is newer than it knows.
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
