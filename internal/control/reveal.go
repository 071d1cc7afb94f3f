package control

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// AuditReveal records that somebody read content: a body, or a payload. Stored: never change.
const AuditReveal inbox.AuditAction = "payload.reveal"

// reveal records that the caller gets the content of an object, such as event/<id>. An operation calls it before it gives
// the content: what cannot be recorded is not shown. An access without an actor is that of a command which reads the
// database itself, for which nobody needs an operation.
func (s *Service) reveal(ctx context.Context, access Access, object string) error {
	if access.Actor == "" {
		return nil
	}
	err := pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{At: s.cfg.Now(), Actor: access.Actor, Action: AuditReveal, Object: object})
	})
	if err != nil {
		return fmt.Errorf("recording who reads %s: %w", object, err)
	}
	return nil
}

// revealed gives content once it is recorded that the caller gets it.
func (s *Service) revealed(ctx context.Context, access Access, object string, content Content) (Content, error) {
	if err := s.reveal(ctx, access, object); err != nil {
		return Content{}, err
	}
	return content, nil
}
