package tokens

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// Revocation names the token to revoke, the operator who revokes it, and the reason. All fields are
// required.
type Revocation struct {
	ID            inbox.ID
	Actor, Reason string
}

const revokeToken = `
UPDATE access_token SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL
RETURNING ` + tokenColumns

// Revoke ends a token and the console logins that were started with it. All processes notice within
// seconds. It returns [ErrNotFound], or [ErrRevoked] if the token was already revoked.
func (s *Store) Revoke(ctx context.Context, r Revocation) (*Token, error) {
	if err := inbox.CheckExplanation(r.Actor, r.Reason); err != nil {
		return nil, fmt.Errorf("revoking a token: %w", err)
	}
	now := s.now().UTC().Truncate(time.Microsecond)
	var revoked *Token
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, revokeToken, r.ID, now)
		if err != nil {
			return err
		}
		if revoked, err = pgx.CollectExactlyOneRow(rows, s.scan); err != nil {
			return err
		}
		return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
			At: now, Actor: r.Actor, Action: AuditRevoke, Object: "token/" + r.ID.String(), Reason: r.Reason, Before: described(revoked),
		})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err := s.Read(ctx, r.ID); err != nil {
			return nil, err
		}
		return nil, ErrRevoked
	}
	if err != nil {
		return nil, fmt.Errorf("revoking a token: %w", err)
	}
	return revoked, nil
}
