package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
)

// Restored wins over whole, also later: one process that misses a commit is enough.
const decide = `
UPDATE database_history
SET verdict = $2, decided_at = now(), finished_at = CASE WHEN $2 = 'whole' THEN now() END
WHERE id = $1 AND (verdict = 'undecided' OR verdict = 'whole' AND $2 = 'restored')`

// Decide records that the timeline is [Whole] or [Restored].
func Decide(ctx context.Context, pool *pgxpool.Pool, row int64, as Verdict) error {
	if _, err := pool.Exec(ctx, decide, row, as); err != nil {
		return fmt.Errorf("deciding about the database's history: %w", err)
	}
	return nil
}

const finish = `
UPDATE database_history SET finished_at = now() WHERE id = $1 AND verdict = 'restored' AND finished_at IS NULL`

const countMarked = `UPDATE database_history SET marked = marked + $2 WHERE id = $1`

// CountMarkedTx counts effects that were marked, in the transaction that marks them.
func CountMarkedTx(ctx context.Context, tx pgx.Tx, row int64, n int) error {
	if _, err := tx.Exec(ctx, countMarked, row, n); err != nil {
		return fmt.Errorf("counting effects that may have happened: %w", err)
	}
	return nil
}

// Finish records that all effects that may have happened are marked, so that effects may be carried out.
func Finish(ctx context.Context, pool *pgxpool.Pool, row int64) error {
	if _, err := pool.Exec(ctx, finish, row); err != nil {
		return fmt.Errorf("ending what follows from the database's history: %w", err)
	}
	return nil
}

// AuditDeclare is the action of a declaration in the audit. Stored: never change.
const AuditDeclare inbox.AuditAction = "history.declare"

// Declaration is what an operator says about the database.
type Declaration struct {
	// As is [Moved], [Restored] or [Copied].
	As Verdict

	// Actor and Reason go into the audit. Both are required.
	Actor, Reason string
}

// ErrDeclaration is returned for a declaration that does not fit the database.
var ErrDeclaration = errors.New("the declaration does not fit")

const lockHere = readHere + ` FOR UPDATE OF h`

// Jobs that were made since the copy began belong to events that were received since.
const declare = `
UPDATE database_history
SET verdict = $2, decided_at = now(), finished_at = CASE WHEN $2 = 'moved' THEN now() END,
    last_job = CASE WHEN $3 THEN (SELECT s.last_value FROM river_job_id_seq s) ELSE last_job END
WHERE id = $1`

// Declare records what an operator says. [Moved] is refused unless the database is a copy: elsewhere nothing has moved, and it would
// end what keeps effects from happening twice.
func Declare(ctx context.Context, pool *pgxpool.Pool, d Declaration) (*Row, error) {
	if err := inbox.CheckExplanation(d.Actor, d.Reason); err != nil {
		return nil, fmt.Errorf("declaring what the database is: %w", err)
	}
	var out *Row
	err := pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if err := Begin(ctx, conn.Conn()); err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			out, err = declareTx(ctx, tx, d)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("declaring what the database is: %w", err)
	}
	return out, nil
}

func declareTx(ctx context.Context, tx pgx.Tx, d Declaration) (*Row, error) {
	before, err := scan(tx.QueryRow(ctx, lockHere))
	if err != nil {
		return nil, err
	}
	switch d.As {
	case Moved:
		if before.Verdict != Undeclared && before.Verdict != Copied {
			return nil, fmt.Errorf("%w: the database is where it was (%s), so that nothing has moved; `--as restored` says that data is missing", ErrDeclaration, before.Verdict)
		}
	case Restored, Copied:
		if before.Verdict == d.As && !before.Open() {
			return nil, fmt.Errorf("%w: it is declared %s already", ErrDeclaration, d.As)
		}
	case First, Undecided, Whole, Undeclared:
		return nil, fmt.Errorf("%w: %q is not one of moved, restored, copy", ErrDeclaration, d.As)
	default:
		return nil, fmt.Errorf("%w: %q is not one of moved, restored, copy", ErrDeclaration, d.As)
	}
	// What was recorded on a copy before it was declared came after the copy. Where work went on, everything is older than the declaration.
	worked := before.Open()
	if _, err := tx.Exec(ctx, declare, before.ID, d.As, worked); err != nil {
		return nil, err
	}
	after, err := scan(tx.QueryRow(ctx, readHere))
	if err != nil {
		return nil, err
	}
	return after, inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: *after.DecidedAt, Actor: d.Actor, Action: AuditDeclare, Object: "database", Reason: d.Reason, Before: before, After: after,
	})
}
