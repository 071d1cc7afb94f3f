package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// KeyChange is a change to the keyring. It names keys by their ids, never by their
// content.
type KeyChange struct {
	Action AuditAction

	// Actor and Reason are required.
	Actor, Reason string

	// Before and After are the active key and all keys' ids.
	Before, After KeyIDs
}

// KeyIDs are the keys of a keyring by id; Active is 0 if there is none.
type KeyIDs struct {
	Active int32   `json:"active"`
	Keys   []int32 `json:"keys"`
}

// RecordKeyChange writes a change of the keyring into the audit. The keyring is outside
// the database, so the entry is written before the change: an entry without a change
// does no harm.
func RecordKeyChange(ctx context.Context, pool *pgxpool.Pool, c KeyChange) error {
	if err := CheckExplanation(c.Actor, c.Reason); err != nil {
		return fmt.Errorf("changing the keyring: %w", err)
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&now); err != nil {
			return fmt.Errorf("changing the keyring: %w", err)
		}
		return WriteAuditTx(ctx, tx, AuditEntry{
			At: now, Actor: c.Actor, Action: c.Action, Object: "keyring", Reason: c.Reason, Before: c.Before, After: c.After,
		})
	})
}
