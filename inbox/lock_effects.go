package inbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// LockedEffect is an effect whose row the caller has locked, with its event and its
// stream, before it moves it out of a state at rest.
type LockedEffect struct {
	Effect, Event   ID
	RouteID         int32
	State           EffectState
	Reason          reasons.Reason
	Attempts        int
	Version         int
	Revision        int
	Item            int
	Key             string
	SequenceKeyHash []byte
	BodyKept        bool
	Rendered        bool
	CalledAgain     bool // a later call repeats its operation
	RouteGone       bool
	Shadow          bool // see [Claim.Shadow]
	SendStarted     *time.Time
	Now             time.Time
}

// Results of operations, including the results of duplicates, are rendered under their events' locks. The statement
// locks the events of the effects $1, the events $2, and the events of the duplicates of the effects $3.
const lockEffectEvents = `
SELECT v.id
FROM inbox_event v
WHERE v.id = ANY (ARRAY (
    SELECT e.event_id FROM effect e WHERE e.id = ANY ($1::uuid[])
    UNION ALL
    SELECT unnest($2::uuid[])
    UNION ALL
    SELECT f.event_id FROM effect f WHERE f.duplicate_of = ANY ($3::uuid[]) AND f.duplicate_of IS NOT NULL))
ORDER BY v.id
FOR NO KEY UPDATE OF v`

// The statement skips a stream that another transaction has locked, so that the other effects do not wait for it.
const lockEffectStreams = `
SELECT s.route_id, s.key_hash
FROM stream s
WHERE (s.route_id, s.key_hash) IN (
    SELECT e.route_id, e.sequence_key_hash
    FROM effect e
    WHERE e.id = ANY ($1::uuid[]) AND e.sequence_key_hash IS NOT NULL)
ORDER BY s.id
FOR UPDATE OF s SKIP LOCKED`

// queueStreamLocks locks the streams of effects. The names of those that it locked are in the answer once the batch has
// been sent.
func queueStreamLocks(b *pgx.Batch, effects []ID) map[string]bool {
	locked := map[string]bool{}
	b.Queue(lockEffectStreams, effects).Query(func(rows pgx.Rows) error {
		var routeID int32
		var hash []byte
		_, err := pgx.ForEachRow(rows, []any{&routeID, &hash}, func() error {
			locked[streamName(routeID, hash)] = true
			return nil
		})
		return err
	})
	return locked
}

// The first finds the effects whose stream exists, the second the effects that exist.
const (
	readStreamsOfEffects = `
SELECT e.id
FROM effect e
JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash
WHERE e.id = ANY ($1::uuid[])`
	readEffectsThere = `SELECT id FROM effect WHERE id = ANY ($1::uuid[])`
)

var lockEffects = `
SELECT x.id, x.event_id, x.route_id, x.state, coalesce(x.reason, ''), x.attempts, x.version, x.revision, x.item, x.idempotency_key,
    x.sequence_key_hash, x.rendered IS NOT NULL,
    EXISTS (SELECT FROM inbox_body b WHERE b.id = v.body_id AND b.class = v.class) OR ` + row.Archived + `, ` + row.CalledAgain + `,
    coalesce((SELECT ` + row.GoneRoute + ` FROM route r WHERE r.id = x.route_id), false), x.send_started_at, x.shadow, now()
FROM effect x
JOIN inbox_event v ON v.id = x.event_id
WHERE x.id = ANY ($1::uuid[])
ORDER BY x.id
FOR UPDATE OF x SKIP LOCKED`

// EffectLocks says which effects to lock. Each lookup that the caller spares is spared for each effect.
type EffectLocks struct {
	Effects []ID

	// Events are the events of the effects, if the caller knows them, and any further events to lock. If it is empty,
	// LockEffectsTx looks them up.
	Events []ID

	// Streamless says that none of the effects is of a route that may be ordered.
	Streamless bool
}

// LockEffectsTx locks effects in the order that all callers use: their events, their streams, the effects themselves.
// It does not wait for an effect if another transaction has locked the effect or its stream, but returns it in missed.
// An effect that does not exist is in neither answer.
func LockEffectsTx(ctx context.Context, tx pgx.Tx, l EffectLocks) (held map[ID]*LockedEffect, missed []ID, err error) {
	ids := l.Effects
	held = make(map[ID]*LockedEffect, len(ids))
	var obtained map[string]bool
	unknown := ids
	if len(l.Events) > 0 {
		unknown = nil
	}
	var b pgx.Batch
	b.Queue(lockEffectEvents, unknown, l.Events, ids)
	if !l.Streamless {
		obtained = queueStreamLocks(&b, ids)
	}
	b.Queue(lockEffects, ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			h := new(LockedEffect)
			err := rows.Scan(&h.Effect, &h.Event, &h.RouteID, &h.State, &h.Reason, &h.Attempts, &h.Version, &h.Revision, &h.Item, &h.Key,
				&h.SequenceKeyHash, &h.Rendered, &h.BodyKept, &h.CalledAgain, &h.RouteGone, &h.SendStarted, &h.Shadow, &h.Now)
			if err != nil {
				return err
			}
			held[h.Effect] = h
		}
		return rows.Err()
	})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return nil, nil, err
	}
	var absent, streamless []ID
	for _, id := range ids {
		switch h := held[id]; {
		case h == nil:
			absent = append(absent, id)
		case !l.Streamless && h.SequenceKeyHash != nil && !obtained[streamName(h.RouteID, h.SequenceKeyHash)]:
			streamless = append(streamless, id)
		}
	}
	missed, err = readIDs(ctx, tx, readEffectsThere, absent)
	if err != nil {
		return nil, nil, err
	}
	behind, err := readIDs(ctx, tx, readStreamsOfEffects, streamless)
	for _, id := range behind {
		delete(held, id)
	}
	return held, append(missed, behind...), err
}

// readIDs returns the ids that a statement finds among ids. Without ids it sends no statement.
func readIDs(ctx context.Context, tx row.Querier, statement string, ids []ID) ([]ID, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, statement, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[ID])
}

// BodyGone reports whether nothing could be sent any more: an item of a list was
// rendered when it was written.
func (h *LockedEffect) BodyGone() bool { return !h.BodyKept && (h.Item == 0 || !h.Rendered) }

// EffectSnapshot is an effect as an audit entry shows it.
type EffectSnapshot struct {
	State       EffectState `json:"state"`
	Reason      string      `json:"reason,omitempty"`
	Attempts    int         `json:"attempts"`
	Version     int         `json:"version"`
	Revision    int         `json:"revision"`
	SendStarted *time.Time  `json:"send_started_at,omitempty"`
}

// Snapshot returns the effect as an audit entry shows it.
func (h *LockedEffect) Snapshot() EffectSnapshot {
	return EffectSnapshot{
		State: h.State, Reason: string(h.Reason), Attempts: h.Attempts, Version: h.Version, Revision: h.Revision, SendStarted: h.SendStarted,
	}
}
