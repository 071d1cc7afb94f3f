package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/internal/session"
)

// indexState reports whether an index exists and whether it is usable.
const indexState = `
SELECT c.oid IS NOT NULL, coalesce(i.indisvalid AND i.indisready, false)
FROM (SELECT to_regclass(quote_ident($1)) AS oid) c LEFT JOIN pg_index i ON i.indexrelid = c.oid`

// buildIndexes runs a file outside a transaction. The state of the indexes shows how far an earlier
// attempt got: buildIndexes keeps a valid index, and drops and rebuilds an unfinished one.
func (r *runner) buildIndexes(ctx context.Context, what, sql string) error {
	statements, err := indexStatements(sql)
	if err != nil {
		return err
	}
	// A single attempt may wait for the whole time, because this wait, unlike that for a table's
	// lock, blocks no other session, and a new attempt would be expensive.
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
		// An index that an interrupted attempt left costs space and time and is never used.
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

// alone runs one statement outside a transaction. While it runs, alone observes which sessions it
// waits for.
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
