package replay

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
)

// One chunk has at most judgeChunk events, and at most judgeBytes bytes of bodies and rendered requests. A single event
// may have more.
const (
	judgeChunk = 50
	judgeBytes = 4 << 20
)

// PostgreSQL knows the length of a value without reading it. The sum includes the effects that [readRecordedEffects] reads.
const readRecordedSizes = `
SELECT v.id, coalesce(b.size, 0)
    + coalesce((SELECT sum(coalesce(octet_length(e.rendered), 0) + coalesce(octet_length(e.fetched), 0)) FROM effect e WHERE e.event_id = v.id AND (e.item = 0 OR e.id = ANY ($2::uuid[]))), 0)
FROM inbox_event v
LEFT JOIN LATERAL (
    SELECT octet_length(p.headers) + octet_length(p.body) AS size
    FROM inbox_body p
    WHERE p.class = v.class AND p.id = v.body_id
    LIMIT 1) b ON true
WHERE v.id = ANY ($1::uuid[])
ORDER BY v.id`

// recordedChunks returns the events that are stored, in the order of their ids, in chunks that can be read at once.
func recordedChunks(ctx context.Context, db row.Querier, events, effects []inbox.ID) (chunks [][]inbox.ID, err error) {
	rows, err := db.Query(ctx, readRecordedSizes, events, effects)
	if err != nil {
		return nil, err
	}
	var id inbox.ID
	var size, sum int64
	_, err = pgx.ForEachRow(rows, []any{&id, &size}, func() error {
		last := len(chunks) - 1
		if last < 0 || len(chunks[last]) == judgeChunk || sum+size > judgeBytes {
			chunks, sum = append(chunks, []inbox.ID{id}), size
			return nil
		}
		chunks[last] = append(chunks[last], id)
		sum += size
		return nil
	})
	return chunks, err
}

// recordedEvents reads one chunk of events completely, because judging them may take long.
// Bodies that are not in the database any more are read from arch.
func recordedEvents(ctx context.Context, db row.Querier, keys *seal.Keyring, arch *archive.Archive, events []inbox.ID) ([]*RecordedEvent, error) {
	rows, err := db.Query(ctx, readRecordedEvents, events)
	if err != nil {
		return nil, err
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*RecordedEvent, error) { return scanRecordedEvent(row, keys) })
	if err != nil {
		return nil, err
	}
	for _, r := range out {
		if r.Event.BodyGone && r.Event.GoneReason == "" {
			if err := r.readArchived(ctx, arch, keys); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// readArchived sets the delivery from the archive. An archive that does not answer is an error, because the judgement would be
// another one.
func (r *RecordedEvent) readArchived(ctx context.Context, arch *archive.Archive, keys *seal.Keyring) error {
	content, err := arch.Event(ctx, keys, r.Event.ID)
	switch {
	case err == nil:
		r.Event.Headers, r.Event.Body, r.Delivery, r.Event.BodyGone = content.Headers, content.Body, content.Delivery, false
	case archive.IsUnavailable(err):
		return err
	case errors.Is(err, archive.ErrDamaged):
		r.Event.GoneReason = reasons.ArchiveDamaged
	case !errors.Is(err, archive.ErrNotArchived):
		r.Event.GoneReason, r.Event.MissingKey = inbox.UnopenedReason(err)
	}
	return nil
}

// The statement reads the present effects of events. Of the items of lists it reads only the
// requested ones, because the effect that became the list represents the route.
const readRecordedEffects = recordedEffectColumns + `
WHERE e.event_id = ANY ($1::uuid[]) AND (e.item = 0 OR e.id = ANY ($2::uuid[]))
ORDER BY e.event_id, e.route_id, e.item`

const recordedEffectColumns = `
SELECT e.event_id, e.id, e.route_id, r.name, e.route_version, r.target, e.item, e.state, coalesce(e.reason, ''), e.version,
    e.idempotency_key, e.key_hash, e.attempts, e.unknown_since, e.rendered, e.rendered_key_id, e.fetched, e.fetched_key_id, e.sequence_key_hash, coalesce(e.sequence_number::text, ''),
    coalesce(e.last_code, ''), e.finished_at,
    coalesce(t.applied::text, '')
FROM effect e
JOIN route r ON r.id = e.route_id
LEFT JOIN stream t ON t.route_id = e.route_id AND t.key_hash = e.sequence_key_hash`

const readRecordedEvents = `
SELECT v.id, v.event_id, v.type, v.occurred_at, v.received_at, coalesce(v.traceparent, ''), v.source_id, s.name,
    v.body_offset, v.body_length, v.item, b.headers, b.body, v.body_id, b.key_id, v.discarded_at IS NOT NULL,
    now() - c.effects, v.admission IN ('unusable', 'beyond_retention')
FROM inbox_event v
JOIN source s ON s.id = v.source_id
LEFT JOIN retention_class c ON c.name = s.class
LEFT JOIN LATERAL (
    SELECT p.headers, p.body, p.key_id
    FROM inbox_body p
    WHERE p.class = v.class AND p.id = v.body_id
    LIMIT 1) b ON true
WHERE v.id = ANY ($1::uuid[])
ORDER BY v.id`

// eachRecorded calls the judge for each of the events with its effects, and do with the
// judgements. It judges several chunks at once, and calls do for one event at a time, in no order.
func (p *plan) eachRecorded(ctx context.Context, events, effects []inbox.ID, do func(*RecordedEvent, []Judgement)) error {
	chunks, err := recordedChunks(ctx, p.pool, events, effects)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.judges())
	for _, chunk := range chunks {
		group.Go(func() error {
			return p.judgeChunk(ctx, chunk, effects, func(r *RecordedEvent, judgements []Judgement) {
				mu.Lock()
				defer mu.Unlock()
				do(r, judgements)
			})
		})
	}
	return group.Wait()
}

// judges returns how many goroutines judge at once: one for each processor, but each must
// have two connections of the pool. The walk and the writing use two more.
func (p *plan) judges() int {
	return max(min(runtime.GOMAXPROCS(0), (int(p.pool.Config().MaxConns)-2)/2), 1)
}

func (p *plan) judgeChunk(ctx context.Context, events, effects []inbox.ID, do func(*RecordedEvent, []Judgement)) error {
	recorded, err := recordedEffects(ctx, p.pool, p.store.Keyring(), events, effects)
	if err != nil {
		return err
	}
	read, err := recordedEvents(ctx, p.pool, p.store.Keyring(), p.arch, events)
	if err != nil {
		return err
	}
	for _, r := range read {
		r.Effects, r.NewKey = recorded[r.Event.ID], p.ask.Options.NewKey
		r.ForgetUnknown, r.Includes = p.ask.Options.IncludeIndeterminate, p.ask.Options.includesSkipped
		judgements, err := p.judge.Judge(ctx, r)
		if err != nil {
			return err
		}
		do(r, judgements)
	}
	return nil
}

func scanRecordedEvent(row pgx.CollectableRow, keys *seal.Keyring) (*RecordedEvent, error) {
	r := new(RecordedEvent)
	var occurred, since pgtype.Timestamptz
	var bodyID inbox.ID
	var keyID *int32
	err := row.Scan(&r.Event.ID, &r.Event.EventID, &r.Event.Type, &occurred, &r.Event.ReceivedAt, &r.Event.Traceparent, &r.SourceID,
		&r.Source, &r.Offset, &r.Length, &r.Item, &r.Event.Headers, &r.Delivery, &bodyID, &keyID, &r.Discarded, &since, &r.DeadLetter)
	if err != nil {
		return nil, err
	}
	if occurred.Valid {
		r.Event.OccurredAt = occurred.Time
	}
	r.EffectsSince = since.Time // zero if it is null
	if r.Delivery != nil {
		var errs [2]error
		r.Event.Headers, errs[0] = keys.Open(place.Headers(bodyID), keyID, r.Event.Headers)
		r.Delivery, errs[1] = keys.Open(place.Body(bodyID), keyID, r.Delivery)
		err := errors.Join(errs[:]...)
		if err == nil && r.Offset+r.Length > len(r.Delivery) {
			err = seal.ErrDamaged
		}
		if err != nil {
			r.Event.Headers, r.Delivery = nil, nil
			r.Event.GoneReason, r.Event.MissingKey = inbox.UnopenedReason(err)
		}
	}
	if r.Event.BodyGone = r.Delivery == nil; !r.Event.BodyGone {
		r.Event.Body = r.Delivery[r.Offset : r.Offset+r.Length]
	}
	return r, nil
}

func recordedEffects(ctx context.Context, pool *pgxpool.Pool, keys *seal.Keyring, events, effects []inbox.ID) (map[inbox.ID][]RecordedEffect, error) {
	rows, err := pool.Query(ctx, readRecordedEffects, events, effects)
	if err != nil {
		return nil, err
	}
	return collectRecordedEffects(rows, keys, len(events))
}

// collectRecordedEffects reads the effects by event. events is how many events there are.
func collectRecordedEffects(rows pgx.Rows, keys *seal.Keyring, events int) (map[inbox.ID][]RecordedEffect, error) {
	defer rows.Close()
	out := make(map[inbox.ID][]RecordedEffect, events)
	for rows.Next() {
		var event inbox.ID
		var r RecordedEffect
		var unknown, finished pgtype.Timestamptz
		var keyID, fetchedKey *int32
		err := rows.Scan(&event, &r.Effect, &r.RouteID, &r.Route, &r.RouteVersion, &r.Target, &r.Item, &r.State, &r.Reason, &r.Version,
			&r.Key, &r.KeyHash, &r.Attempts, &unknown, &r.Rendered, &keyID, &r.Fetched, &fetchedKey, &r.SequenceKeyHash, &r.SequenceNumber, &r.LastCode, &finished, &r.Applied)
		if err != nil {
			return nil, err
		}
		if r.Rendered, err = keys.Open(place.Rendered(r.Effect), keyID, r.Rendered); err != nil {
			r.Rendered, r.Lost = nil, true
			_, r.MissingKey = inbox.UnopenedReason(err)
		}
		if r.Fetched, err = keys.Open(place.Fetched(r.Effect), fetchedKey, r.Fetched); err != nil {
			r.Fetched, r.Lost = nil, true
			_, r.MissingKey = inbox.UnopenedReason(err)
		}
		if unknown.Valid {
			r.UnknownSince = unknown.Time
		}
		if finished.Valid {
			r.FinishedAt = finished.Time
		}
		out[event] = append(out[event], r)
	}
	return out, rows.Err()
}
