package logins

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

const endLogin = `UPDATE console_login SET ended_at = $2 WHERE id = $1 AND ended_at IS NULL RETURNING actor`

// End logs a person out and writes an audit entry. It does nothing if the login has already ended.
func (s *Store) End(ctx context.Context, id inbox.ID) error {
	_, err := s.end(ctx, id, func(actor string) inbox.AuditEntry {
		return inbox.AuditEntry{Actor: actor, Action: AuditLogout}
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("logging out: %w", err)
	}
	return nil
}

// Revocation names the login to end, the operator who ends it, and the reason. All fields are
// required.
type Revocation struct {
	ID            inbox.ID
	Actor, Reason string
}

// Revoke ends the login of another person. All processes notice within seconds. It returns
// [ErrNotFound], or [ErrEnded] if the login has already ended or expired.
func (s *Store) Revoke(ctx context.Context, r Revocation) (*Login, error) {
	if err := inbox.CheckExplanation(r.Actor, r.Reason); err != nil {
		return nil, fmt.Errorf("revoking a login: %w", err)
	}
	found, err := s.Read(ctx, r.ID)
	switch {
	case err != nil:
		return nil, err
	case found.State != Active:
		return nil, ErrEnded
	}
	_, err = s.end(ctx, r.ID, func(actor string) inbox.AuditEntry {
		return inbox.AuditEntry{Actor: r.Actor, Action: AuditRevoke, Reason: r.Reason, Before: map[string]string{"actor": actor}}
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows): // the person has just logged out
		return nil, ErrEnded
	case err != nil:
		return nil, fmt.Errorf("revoking a login: %w", err)
	}
	return s.Read(ctx, r.ID)
}

func (s *Store) end(ctx context.Context, id inbox.ID, entry func(actor string) inbox.AuditEntry) (actor string, err error) {
	now := s.now()
	err = pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, endLogin, id, now).Scan(&actor); err != nil {
			return err
		}
		a := entry(actor)
		a.At, a.Object = now, "login/"+id.String()
		return inbox.WriteAuditTx(ctx, tx, a)
	})
	return actor, err
}
