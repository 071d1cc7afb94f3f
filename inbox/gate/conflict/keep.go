package conflict

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/pgtext"
	"github.com/oncegate/oncegate/internal/session"
)

// maxConflictPayloads is how many different payloads of one event are kept, in addition
// to the admitted ones.
const maxConflictPayloads = 5

// The event keeps its first payload. The statement locks the event's row, so that payloads that conflict with one event
// are kept one after the other. The first conflict of an event in an hour is audited, with the number of conflicts
// until then but without hashes and paths, which a token without read-payload must not see. The event only counts the others, and their payloads have separate rows: otherwise a sender whose
// payloads drift would fill the disk.
const recordConflict = `
WITH before AS MATERIALIZED (
    SELECT id, conflict_at FROM inbox_event WHERE id = $1 FOR UPDATE),
marked AS (
    UPDATE inbox_event e SET conflicts = e.conflicts + 1, conflict_at = now(), conflict_paths = $2
    FROM before b WHERE e.id = b.id
    RETURNING e.id, e.conflicts, b.conflict_at AS last),
audited AS (
    INSERT INTO audit (id, actor, action, object, after)
    SELECT $3, 'gate', 'conflict', 'event/' || id, jsonb_build_object('conflicts', conflicts)
    FROM marked
    WHERE last IS NULL OR date_bin('1 hour', last, 'epoch') <> date_bin('1 hour', now(), 'epoch'))
SELECT count(*) FROM marked`

// The same payload is kept once and counted. Its first bytes stay, because its id, and
// the event as which it may have been admitted, are made from them. If it was kept before there was a keyring, its hash is stored in
// the form of $16, and the constraint finds it by that. The lock on the event keeps a reseal from changing the form meanwhile.
const insertConflict = `
INSERT INTO conflict (id, event_id, source_id, payload_sha256, sha256, paths, type, occurred_at, sequence_key, sequence_number,
    id_unsigned, first_seen_at, last_seen_at, key_id, headers, body, sequence_sealed, sequence_key_id)
SELECT $1, e.id, e.source_id, coalesce((SELECT f.payload_sha256 FROM conflict f WHERE f.event_id = e.id AND f.payload_sha256 = $16), $3), $4, $5, $6, $7, $8, $9, $10, clock_timestamp(), clock_timestamp(), $11, $12, $13, $14, $15
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

// keep records the conflict and keeps its payload, in one transaction and one
// round trip. The caller of an operation gets the difference and still has its payload,
// so that payload is not kept. A transaction that emitted gets no answer, so its payload
// is kept.
func (s *Settler) keep(ctx context.Context, p *Payload, d *difference) error {
	now := s.clock.Now()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	recorded, displaced := int64(0), int64(0)
	b := &pgx.Batch{} // without BEGIN, a batch is one transaction
	b.Queue(recordConflict, p.Recorded, d.paths, inbox.NewID(now)).QueryRow(func(row pgx.Row) error { return row.Scan(&recorded) })
	if !p.Admission.Source.Strict || p.Admission.Emitted {
		s.queue(b, p, d, now).Exec(func(tag pgconn.CommandTag) error {
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
	s.displaced.Add(uint64(displaced))
	return nil
}

// queue queues the statements that keep the payload. The last one tells how many others it displaces.
func (s *Settler) queue(b *pgx.Batch, p *Payload, d *difference, now time.Time) *pgx.QueuedQuery {
	event, id := p.event(), inbox.NewID(now)
	headers, body, keyID := place.SealConflict(s.keyring, id, p.Admission.Headers, d.body)
	eventType := event.Type
	if !pgtext.Storable(eventType) {
		eventType = ""
	}
	sequence, sealed, sequenceKey := place.SealSequence(s.keyring, id, event.SequenceKey, event.SequenceNumber)
	b.Queue(insertConflict, id, p.Recorded, s.secret.StoredHash(d.sum[:]), s.secret.StoredHash(p.SHA[:]), d.paths, eventType, row.Micros(event.OccurredAt), sequence.Key, sequence.Number,
		p.Admission.IDUnsigned, keyID, headers, body, sealed, sequenceKey, s.secret.FormerHash(d.sum[:]))
	return b.Queue(displaceConflicts, p.Recorded, maxConflictPayloads)
}
