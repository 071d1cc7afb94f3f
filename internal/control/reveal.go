package control

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// AuditReveal records that a caller read content: a body or a payload. Stored: never change.
const AuditReveal inbox.AuditAction = "payload.reveal"

// reveal writes an audit entry that the caller reads the content of an object, such as event/<id>. An operation calls
// it before it returns the content, so that unrecorded content is never shown. An access without an actor belongs to a
// command that reads the database directly and needs no operation, so it is not recorded.
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

// revealed returns content after it has recorded that the caller reads it.
func (s *Service) revealed(ctx context.Context, access Access, object string, content Content) (Content, error) {
	if err := s.reveal(ctx, access, object); err != nil {
		return Content{}, err
	}
	return content, nil
}
