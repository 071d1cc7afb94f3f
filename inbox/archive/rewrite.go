package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The wait for a lock is longer than a writer takes for one object.
const boundRewrite = `
SELECT set_config('lock_timeout', '45s', true), set_config('synchronous_commit', 'on', true), set_config('idle_in_transaction_session_timeout', '120s', true)`

const lockStored = `
SELECT ` + objectColumns + ` FROM archive_object a WHERE a.name = $1 FOR UPDATE`

const removeObject = `UPDATE archive_object SET state = 'removing' WHERE name = $1`

// rewrite writes an object again with what change makes of its lines, and deletes the former one. change returns the lines that
// stay, and false if nothing changed. A crash leaves both objects or one, and rows that say which of them has to go.
func (a *Archive) rewrite(ctx context.Context, name string, change func([]Line) ([]Line, bool, error)) error {
	if a.cfg.Store == nil {
		return ErrUnconfigured
	}
	going := false
	err := pgx.BeginFunc(ctx, a.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, boundRewrite); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, lockStored, name)
		if err != nil {
			return err
		}
		o, err := pgx.CollectExactlyOneRow(rows, scanObject)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // another process has rewritten it
		}
		if err != nil {
			return err
		}
		if o.state != "stored" {
			going = true // a leftover, because no transaction has it locked
			_, err := tx.Exec(ctx, removeObject, name)
			return err
		}
		lines, err := a.whole(ctx, &o)
		if err != nil {
			return err
		}
		lines, changed, err := change(lines)
		if err != nil || !changed {
			return err
		}
		going = true
		if len(lines) > 0 {
			t := Target{Kind: o.kind, Class: o.class, First: o.first, Last: o.last}
			if _, err := a.Write(ctx, tx, t, func(context.Context) ([]Line, error) { return lines, nil }); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, removeObject, name)
		return err
	})
	if err == nil && going {
		err = a.remove(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("writing object %s again: %w", name, err)
	}
	return nil
}

// whole reads all lines of an object.
func (a *Archive) whole(ctx context.Context, o *object) ([]Line, error) {
	stored, err := a.cfg.Store.Read(ctx, o.name, 0, o.indexOffset)
	if err != nil && a.cfg.IsMissing(err) {
		return nil, fmt.Errorf("%w: it is not in the archive any more", ErrDamaged)
	}
	if err != nil {
		return nil, &UnavailableError{err}
	}
	return a.codec.decode(stored)
}

const lockRemoved = `SELECT FROM archive_object WHERE name = $1 AND state <> 'stored' FOR UPDATE SKIP LOCKED`

// remove deletes an object whose row says that it is to go, and then the row. It leaves an object that is being written.
func (a *Archive) remove(ctx context.Context, name string) error {
	return pgx.BeginFunc(ctx, a.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, boundRewrite); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, lockRemoved, name)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if err := a.cfg.Store.Delete(ctx, name); err != nil {
			return &UnavailableError{err}
		}
		a.cache.forget(name)
		_, err = tx.Exec(ctx, forgetObject, name)
		return err
	})
}

const listLeftovers = `SELECT name FROM archive_object WHERE state <> 'stored' ORDER BY name LIMIT 1000`

// RemoveLeftovers deletes the objects that a crash left: those that were begun and not stored, and those that were replaced and
// not deleted.
func (a *Archive) RemoveLeftovers(ctx context.Context) error {
	if !a.Configured() {
		return nil
	}
	rows, err := a.cfg.Pool.Query(ctx, listLeftovers)
	if err != nil {
		return fmt.Errorf("listing what is left of objects: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("listing what is left of objects: %w", err)
	}
	for _, name := range names {
		if err := a.remove(ctx, name); err != nil {
			return fmt.Errorf("deleting object %s: %w", name, err)
		}
	}
	return nil
}
