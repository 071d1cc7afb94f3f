package migrations

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Repaired is the result of [Migrator.Repair].
type Repaired struct {
	// Dirty reports whether there was something to repair. If it is false, nothing was changed.
	Dirty bool
	// Recorded is the version to which the interrupted migration was to lead, and Version is the
	// actual version of the schema.
	Recorded, Version int
}

// Repair determines and records the version of a schema after a migration was interrupted in a
// program that did not know version 22. It compares the tables, columns, indexes and constraints
// with the objects of each version. If they do not match exactly one version, it returns an error.
func (m *Migrator) Repair(ctx context.Context) (Repaired, error) {
	var out Repaired
	err := m.locked(ctx, func(r *runner) error {
		status, err := r.status(ctx)
		if err != nil {
			return err
		}
		out = Repaired{Dirty: status.Dirty, Recorded: status.Current, Version: status.Current}
		if !status.Dirty {
			return nil
		}
		if status.Current > status.Known {
			return status.newerFiles()
		}
		if out.Version, err = r.facts(ctx, status); err != nil {
			return err
		}
		return r.inTx(ctx, "the record of versions", func(tx pgx.Tx) error {
			return writeVersion(ctx, tx, out.Version, 0)
		})
	})
	return out, err
}

// facts returns the actual version of the schema: the recorded one or, if the file of that
// migration was not run, the version before the migration, upward or downward.
func (r *runner) facts(ctx context.Context, status Status) (int, error) {
	from, to := max(status.Current-1, 0), min(status.Current+1, status.Known)
	versions, err := r.versions(ctx, 0, status.Known)
	if err != nil {
		return 0, err
	}
	found, err := readLines(ctx, r.conn)
	if err != nil {
		return 0, err
	}
	var at []int
	for version := from; version <= to; version++ {
		if fits(found, versions, version) {
			at = append(at, version)
		}
	}
	if len(at) != 1 {
		return 0, fmt.Errorf("the schema has not exactly what one of the versions %d to %d has (it fits %v): restore the tables to one of them, set version and dirty in %s to it, and run `oncegate migrate up`",
			from, to, at, versionTable)
	}
	return at[0], nil
}

// fits reports whether the schema has everything that distinguishes a version from the others. It
// ignores other differences, such as an index that an operator created.
func fits(found catalog, versions map[int]catalog, version int) bool {
	for _, other := range versions {
		for _, line := range versions[version].without(other) {
			if !slices.Contains(found, line) {
				return false
			}
		}
		for _, line := range other.without(versions[version]) {
			if slices.Contains(found, line) {
				return false
			}
		}
	}
	return true
}
