package gate

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/session"
)

// maxConflictPayloads is how many different payloads of one event are kept, in addition
// to the admitted ones.
const maxConflictPayloads = 5

// The same payload is kept once and counted. Its first bytes stay, because its id, and
// the event as which it may have been admitted, are made from them.
const insertConflict = `
INSERT INTO conflict (id, event_id, source_id, payload_sha256, sha256, paths, type, occurred_at, sequence_key, sequence_number,
    id_unsigned, first_seen_at, last_seen_at, key_id, headers, body, sequence_sealed, sequence_key_id)
SELECT $1, e.id, e.source_id, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp(), clock_timestamp(), $11, $12, $13, $14, $15
FROM inbox_event e
WHERE e.id = $2
ON CONFLICT ON CONSTRAINT conflict_payload_key DO UPDATE
SET deliveries = conflict.deliveries + 1, last_seen_at = excluded.last_seen_at`

// A separate statement, because only its snapshot sees the payload that was inserted.
// The event still counts the displaced payloads.
const displaceConflicts = `
DELETE FROM conflict c
WHERE c.id IN (
    SELECT k.id FROM conflict k WHERE k.event_id = $1 AND k.admitted_at IS NULL
    ORDER BY k.last_seen_at DESC, k.id DESC OFFSET $2)`

// keepConflict records the conflict and keeps its payload, in one transaction and one
// round trip. The caller of an operation gets the difference and still has its payload,
// so that payload is not kept. A transaction that emitted gets no answer, so its payload
// is kept.
func (g *Gate) keepConflict(ctx context.Context, e *entry, c *conflictingPayload) error {
	now := g.cfg.Clock.Now()
	conn, err := g.cfg.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	recorded, displaced := int64(0), int64(0)
	b := &pgx.Batch{} // without BEGIN, a batch is one transaction
	b.Queue(recordConflict, e.row, e.sha[:], c.paths, inbox.NewID(now)).QueryRow(func(row pgx.Row) error { return row.Scan(&recorded) })
	if !e.source().Strict || e.delivery.admission.Emitted {
		g.queueConflict(b, e, c, now).Exec(func(tag pgconn.CommandTag) error {
			displaced = tag.RowsAffected()
			return nil
		})
	}
	err = conn.SendBatch(ctx, b).Close()
	switch {
	case err != nil:
		return err
	case recorded == 0:
		return errors.New("the event was removed while it was compared")
	case session.TakeWarning(conn.Conn()):
		return errors.New("the commit was not confirmed by the standby")
	}
	g.stats.displaced.Add(uint64(displaced))
	return nil
}

func (g *Gate) queueConflict(b *pgx.Batch, e *entry, c *conflictingPayload, now time.Time) *pgx.QueuedQuery {
	event, id := e.event(), inbox.NewID(now)
	headers, body, keyID := place.SealConflict(g.cfg.Keyring, id, e.delivery.admission.Headers, c.body)
	eventType := event.Type
	if !row.Storable(eventType) {
		eventType = ""
	}
	sequence, sealed, sequenceKey := place.SealSequence(g.cfg.Keyring, id, event.SequenceKey, event.SequenceNumber)
	b.Queue(insertConflict, id, e.row, c.sum[:], e.sha[:], c.paths, eventType, row.Micros(event.OccurredAt), sequence.Key, sequence.Number,
		e.delivery.admission.IDUnsigned, keyID, headers, body, sealed, sequenceKey)
	return b.Queue(displaceConflicts, e.row, maxConflictPayloads)
}
