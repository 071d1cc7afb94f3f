package migrations

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
)

// driver makes golang-migrate use the connection of a runner. Unlike the library's own drivers it
// commits a file together with its version: the library announces the version, runs the file and
// confirms the version, but the driver does all of this when the library runs the file. A migration
// therefore never leaves a dirty version.
type driver struct {
	ctx    context.Context //nolint:containedctx // the library's interface has no contexts
	runner *runner

	current, target int
}

var _ database.Driver = (*driver)(nil)

// createTable creates golang-migrate's table of versions, as the library does.
func (d *driver) createTable() error {
	_, err := d.runner.conn.Exec(d.ctx, "CREATE TABLE IF NOT EXISTS "+versionTable+" (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)")
	if err != nil {
		return fmt.Errorf("making the record of versions: %w", err)
	}
	return nil
}

// Open implements [database.Driver]. The connection is already open.
func (d *driver) Open(string) (database.Driver, error) { return d, nil }

// Close implements [database.Driver]. The runner closes its connection.
func (d *driver) Close() error { return nil }

// Lock implements [database.Driver]. The runner has already taken the lock.
func (d *driver) Lock() error { return nil }

// Unlock implements [database.Driver].
func (d *driver) Unlock() error { return nil }

// Drop implements [database.Driver]. It is never called.
func (d *driver) Drop() error { return errors.New("dropping all tables: not supported") }

// Version implements [database.Driver].
func (d *driver) Version() (version int, _ bool, err error) {
	err = d.runner.conn.QueryRow(d.ctx, readOwn).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		version, err = database.NilVersion, nil
	}
	d.current = version
	return version, false, err
}

// SetVersion implements [database.Driver]. It only remembers an announced version, which Run
// writes.
func (d *driver) SetVersion(version int, announced bool) error {
	if announced {
		d.target = version
		return d.ctx.Err()
	}
	if version != d.current {
		return fmt.Errorf("migration to %d: it has no file", version)
	}
	return nil
}

// Run implements [database.Driver]. It commits the file together with its version.
func (d *driver) Run(body io.Reader) error {
	content, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("reading a migration: %w", err)
	}
	what := fmt.Sprintf("migration %d", d.target)
	if d.target < d.current {
		what = fmt.Sprintf("taking migration %d back", d.current)
	}
	f, err := parseFile(string(content))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if d.target > d.current && f.oldest == 0 {
		return fmt.Errorf("%s: its file does not say which programs may run on it: begin it with \"-- oncegate:oldest <version>\"", what)
	}
	statements := f.sql
	if f.outside {
		if err := d.runner.buildIndexes(d.ctx, what, f.sql); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		statements = ""
	}
	err = d.runner.inTx(d.ctx, what, func(tx pgx.Tx) error {
		// Without parameters, PostgreSQL accepts all statements of the file at once.
		if _, err := tx.Exec(d.ctx, statements, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		return writeVersion(d.ctx, tx, d.target, f.oldest)
	})
	if err != nil {
		if _, ok := errors.AsType[*LockError](err); ok {
			return err
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	d.current = d.target
	return nil
}

// The row is replaced by DELETE and INSERT, never by TRUNCATE, because every process reads it while
// a migration runs. A version of -1 means that there is none.
const (
	deleteVersion = `DELETE FROM ` + versionTable

	insertVersion = `INSERT INTO ` + versionTable + ` (version, dirty) SELECT $1::bigint, false WHERE $1::bigint >= 0`

	forgetStated = `DELETE FROM schema_version WHERE tables = 'oncegate' AND version > $1`

	writeStated = `
INSERT INTO schema_version (tables, version, oldest) VALUES ($1, $2, $3)
ON CONFLICT (tables, version) DO UPDATE SET oldest = excluded.oldest, applied_at = now()`

	hasStated = `SELECT to_regclass('schema_version') IS NOT NULL`
)

func writeVersion(ctx context.Context, tx pgx.Tx, version, oldest int) error {
	var has bool
	if err := tx.QueryRow(ctx, hasStated).Scan(&has); err != nil {
		return fmt.Errorf("writing the version: %w", err)
	}
	var b pgx.Batch
	b.Queue(deleteVersion)
	b.Queue(insertVersion, version)
	if has {
		b.Queue(forgetStated, version)
		if oldest > 0 {
			b.Queue(writeStated, "oncegate", version, oldest)
		}
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("writing the version: %w", err)
	}
	return nil
}
