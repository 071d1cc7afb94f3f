package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/session"
)

// Whether an index is there, and can be used.
const indexState = `
SELECT c.oid IS NOT NULL, coalesce(i.indisvalid AND i.indisready, false)
FROM (SELECT to_regclass(quote_ident($1)) AS oid) c LEFT JOIN pg_index i ON i.indexrelid = c.oid`

// buildIndexes carries out a file that runs outside a transaction. Nothing says how far
// an earlier try has come but the indexes themselves: one that is whole stays, and what
// is left of one that was not finished is dropped and built again.
func (r *runner) buildIndexes(ctx context.Context, what, sql string) error {
	statements, err := indexStatements(sql)
	if err != nil {
		return err
	}
	// Unlike a table's lock, this waits in nobody's way, and to begin anew is expensive:
	// so all the time is for one try.
	if _, err := r.conn.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)", fmt.Sprintf("%dms", r.cfg.LockWait.Milliseconds())); err != nil {
		return fmt.Errorf("bounding the wait for locks: %w", err)
	}
	for _, statement := range statements {
		if err := r.index(ctx, what, statement); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) index(ctx context.Context, what string, statement indexStatement) error {
	exists, valid, err := r.indexState(ctx, statement.index)
	switch {
	case err != nil:
		return err
	case statement.drop && !exists, !statement.drop && valid:
		return nil
	case !statement.drop && exists:
		// What a try leaves that was cut off takes up space and time, and is never used.
		if err := r.alone(ctx, what, "DROP INDEX CONCURRENTLY IF EXISTS "+pgx.Identifier{statement.index}.Sanitize()); err != nil {
			return err
		}
	}
	if err := r.alone(ctx, what, statement.sql); err != nil {
		return err
	}
	if statement.drop {
		return nil
	}
	if _, valid, err = r.indexState(ctx, statement.index); err == nil && !valid {
		err = fmt.Errorf("index %s is not valid after it was built; run the command again", statement.index)
	}
	return err
}

func (r *runner) indexState(ctx context.Context, name string) (exists, valid bool, err error) {
	if err := r.conn.QueryRow(ctx, indexState, name).Scan(&exists, &valid); err != nil {
		return false, false, fmt.Errorf("looking at index %s: %w", name, err)
	}
	return exists, valid, nil
}

// alone runs one statement outside a transaction, and tells while it runs whom it waits
// for.
func (r *runner) alone(ctx context.Context, what, sql string) error {
	p := r.patience("a lock of " + what)
	var seen []session.Backend
	err := r.watched(ctx, &seen, func() error {
		_, err := r.conn.Exec(ctx, sql)
		return err
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "55P03" {
		return &LockError{What: p.what, Holders: seen, Waited: p.within}
	}
	return err
}
