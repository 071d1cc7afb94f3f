package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrSchema is wrapped by what [Validate] returns for a schema that this binary
// must not run on.
var ErrSchema = errors.New("schema does not fit this binary")

// Status is what the database says about its schema. Zero versions mean none.
type Status struct {
	Current, Known    int // Oncegate's own tables
	River, RiverKnown int // River's tables
	Dirty             bool
}

// to_regclass gives NULL for a table that is not there, so that an empty
// database is a status and not an error.
const tablesExist = `SELECT to_regclass($1) IS NOT NULL, to_regclass('river_migration') IS NOT NULL`

const readOwn = `SELECT version, dirty FROM ` + versionTable

const readRiver = `SELECT coalesce(max(version), 0) FROM river_migration WHERE line = 'main'`

// Read reads the status of the schema that the pool's search path names.
func Read(ctx context.Context, pool *pgxpool.Pool) (Status, error) {
	status := Status{Known: Version, RiverKnown: RiverVersion}
	var own, river bool
	if err := pool.QueryRow(ctx, tablesExist, versionTable).Scan(&own, &river); err != nil {
		return status, fmt.Errorf("reading the schema's version: %w", err)
	}
	if own {
		err := pool.QueryRow(ctx, readOwn).Scan(&status.Current, &status.Dirty)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return status, fmt.Errorf("reading the schema's version: %w", err)
		}
	}
	if river {
		if err := pool.QueryRow(ctx, readRiver).Scan(&status.River); err != nil {
			return status, fmt.Errorf("reading the version of River's tables: %w", err)
		}
	}
	return status, nil
}

// Validate returns nil if the schema is exactly what this binary needs, and
// else one line that says what to run. Only `serve` and its like call it.
func Validate(ctx context.Context, pool *pgxpool.Pool) error {
	status, err := Read(ctx, pool)
	if err != nil {
		return err
	}
	return status.Check()
}

// Check returns nil if the status is what this binary needs; see [Validate].
func (s Status) Check() error {
	if err := s.newer(); err != nil {
		return err
	}
	switch {
	case s.Dirty:
		return fmt.Errorf("%w: a migration to %d was interrupted; restore it by hand and set dirty to false in %s, then run `oncegate migrate up`", ErrSchema, s.Current, versionTable)
	case s.Current < s.Known:
		return fmt.Errorf("%w: it is at %d, this binary needs %d: run `oncegate migrate up`", ErrSchema, s.Current, s.Known)
	case s.River < s.RiverKnown:
		return fmt.Errorf("%w: River's tables are at %d, this binary needs %d: run `oncegate migrate up`", ErrSchema, s.River, s.RiverKnown)
	default:
		return nil
	}
}

func (s Status) newer() error {
	switch {
	case s.Current > s.Known:
		return fmt.Errorf("%w: it is at %d, this binary knows %d: run a newer oncegate", ErrSchema, s.Current, s.Known)
	case s.River > s.RiverKnown:
		return fmt.Errorf("%w: River's tables are at %d, this binary knows %d: run a newer oncegate", ErrSchema, s.River, s.RiverKnown)
	default:
		return nil
	}
}
