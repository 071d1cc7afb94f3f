package decide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/read"
)

// ErrNotRefused is returned by [DiscardOutbox] for an event that will still be admitted.
var ErrNotRefused = errors.New("it is not refused: a relay is about to admit it")

// DiscardOutbox says which refused event to discard. All fields are required.
type DiscardOutbox struct {
	ID            int64
	Actor, Reason string
}

const (
	lockOutboxRow   = `SELECT id, source, event_id, type, octet_length(payload), created_at, refused_at, coalesce(refusal, '') FROM outbox WHERE id = $1 FOR UPDATE`
	deleteOutboxRow = `DELETE FROM outbox WHERE id = $1`
)

// Run removes an emitted event that can never be admitted. The audit keeps its row
// without the payload. It returns [inbox.ErrNotFound] or [ErrNotRefused].
func (d DiscardOutbox) Run(ctx context.Context, pool *pgxpool.Pool) (discarded read.OutboxRow, err error) {
	if err := inbox.CheckExplanation(d.Actor, d.Reason); err != nil {
		return discarded, fmt.Errorf("discarding row %d of the outbox: %w", d.ID, err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, lockOutboxRow, d.ID)
		if err != nil {
			return err
		}
		discarded, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[read.OutboxRow])
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return inbox.ErrNotFound
		case err != nil:
			return err
		case discarded.RefusedAt == nil:
			return ErrNotRefused
		}
		if _, err := tx.Exec(ctx, deleteOutboxRow, d.ID); err != nil {
			return err
		}
		var now time.Time
		if err := tx.QueryRow(ctx, row.ReadClock).Scan(&now); err != nil {
			return err
		}
		return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
			At: now, Actor: d.Actor, Action: inbox.AuditDiscardOutbox, Object: fmt.Sprintf("outbox/%d", d.ID), Reason: d.Reason, Before: discarded,
		})
	})
	if err != nil {
		return discarded, fmt.Errorf("discarding row %d of the outbox: %w", d.ID, err)
	}
	return discarded, nil
}
