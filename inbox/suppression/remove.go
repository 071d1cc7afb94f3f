package suppression

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

const removeEntries = `
DELETE FROM suppression WHERE digest = ANY ($1::bytea[]) AND target = $2
RETURNING id, target, reason, created_at`

// removed is an entry that is gone, as the audit keeps it.
type removed struct {
	ID        inbox.ID  `json:"id"`
	Target    string    `json:"target,omitempty"`
	Reason    Reason    `json:"reason"`
	CreatedAt time.Time `json:"created_at"`
}

// Remove lets an address be written to again: the entry for the target or, if target is empty, the one for every target goes. Entries
// for single targets stay. It returns [inbox.ErrNotFound] if there is none, and writes the audit, which does not name the address.
func (s *Store) Remove(ctx context.Context, target, address string, d Decision) error {
	if err := inbox.CheckExplanation(d.Actor, d.Reason); err != nil {
		return fmt.Errorf("removing a suppressed address: %w", err)
	}
	normal, err := Normalize(address)
	if err != nil {
		return err
	}
	closed, why, err := s.learn(ctx, s.cfg.Pool)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, removeEntries, s.digests(normal), target)
		if err != nil {
			return fmt.Errorf("removing a suppressed address: %w", err)
		}
		gone, err := pgx.CollectRows(rows, pgx.RowToStructByPos[removed])
		if err != nil {
			return fmt.Errorf("removing a suppressed address: %w", err)
		}
		if len(gone) == 0 && len(closed) > 0 {
			return errClosed(why)
		}
		if len(gone) == 0 {
			return inbox.ErrNotFound
		}
		for _, entry := range gone { // one, or two where it was suppressed before there was a keyring
			err := inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
				At: s.cfg.Now(), Actor: d.Actor, Action: inbox.AuditSuppressionRemove, Object: "suppression/" + entry.ID.String(), Reason: d.Reason, Before: entry,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
