package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/internal/locks"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/labels"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Erase is a request to remove everything of an event but its tombstone.
type Erase struct {
	// Source and EventID are the event's key.
	Source, EventID string

	// Actor and Reason go into the audit. Both are required.
	Actor, Reason string

	// Keyring opens refusals and bodies that are sealed; nil where nothing is.
	Keyring *seal.Keyring

	// Archive loses the event too. With nil, an event that the archive has is not erased completely, and the error says so.
	Archive *archive.Archive
}

// Erased counts what was removed.
type Erased struct {
	Event inbox.ID `json:"event"`

	// Body is true if the bytes of the event were there. They are blanked where other
	// events share the delivery, else the delivery goes with its headers.
	Body   bool `json:"body"`
	Shared bool `json:"shared"`

	// Unopened is true if the event shares its delivery and the delivery is sealed with a key that is
	// not in the keyring, so that its bytes could not be blanked. They can no longer be reached by the
	// event. They are removed when an event of the delivery is erased where the key is, when the last of
	// its events is erased, and when the day is pruned.
	Unopened bool `json:"unopened"`

	// Others are events of the same delivery whose bytes overlap: they had the same
	// content, and lost it too.
	Others int `json:"others"`

	Effects     int  `json:"effects"`      // whose rendered request, fetched answer or result went
	Attempts    int  `json:"attempts"`     // whose excerpt went
	Duplicates  int  `json:"duplicates"`   // effects of other events that showed the result
	Results     int  `json:"results"`      // documents of operations
	Labels      int  `json:"labels"`       // by which the event was found
	Diffs       int  `json:"diffs"`        // of replays
	Streams     int  `json:"streams"`      // whose key went; its hash stays
	Conflicts   int  `json:"conflicts"`    // payloads that were delivered under the event's id later
	Refusals    int  `json:"refusals"`     // that named the event
	Unreadable  int  `json:"unreadable"`   // refusals under a key that is not in the keyring
	NotSearched bool `json:"not_searched"` // the id is too short to be looked for in refusals
	Archived    int  `json:"archived"`     // bodies in the archive that were removed or blanked

	// Admitted are the ids of the events as which such payloads were admitted. They are separate events
	// and keep their content: erase each of them separately.
	Admitted []string `json:"admitted,omitempty" shows:"event_id"`
}

// ErrInFlight is returned by [EraseEvent] while an effect of the event may still be carried out, because
// the effect needs the body.
var ErrInFlight = errors.New("an effect of the event is not at rest yet: wait until it is, or settle it first")

const findErased = `
SELECT e.id, e.class, e.body_id, s.id
FROM inbox_event e JOIN source s ON s.id = e.source_id
WHERE s.name = $1 AND e.event_id = $2`

// The body is locked before its events are searched: a delivery that is still being committed, part by
// part, has either inserted its next events by then or finds the body gone.
const lockErasedBody = `SELECT FROM inbox_body WHERE class = $1 AND id = $2 FOR UPDATE`

// The events of the delivery, found by their common millisecond; locked in the
// order of ids.
const lockSiblings = `
SELECT e.id, e.class, e.body_offset, e.body_length
FROM inbox_event e
WHERE e.id >= $1 AND e.id < $2 AND e.body_id = $3
ORDER BY e.id
FOR UPDATE OF e`

// The streams of the events' effects, which come before the effects in the order of locks. The statement
// fails if another transaction has locked one of them, so that this transaction does not wait for it
// while it has locks for which others wait.
const lockErasedStreams = `
SELECT s.id
FROM stream s
WHERE (s.route_id, s.key_hash) IN (
    SELECT e.route_id, e.sequence_key_hash FROM effect e WHERE e.event_id = ANY ($1::uuid[]) AND e.sequence_key_hash IS NOT NULL)
ORDER BY s.id
FOR UPDATE OF s NOWAIT`

// All effects of the events, and how many of them are not at rest.
const lockErasedEffects = `
WITH held AS MATERIALIZED (SELECT e.id, e.state FROM effect e WHERE e.event_id = ANY ($1::uuid[]) ORDER BY e.id FOR UPDATE OF e)
SELECT coalesce(array_agg(id ORDER BY id), '{}'), count(*) FILTER (WHERE state IN ('pending', 'claimed', 'retry', 'held')) FROM held`

const (
	eraseEffects = `
UPDATE effect SET rendered = NULL, rendered_key_id = NULL, fetched = NULL, fetched_key_id = NULL, result = NULL, result_key_id = NULL
WHERE id = ANY ($1::uuid[]) AND (rendered IS NOT NULL OR fetched IS NOT NULL OR result IS NOT NULL)`

	eraseAttempts = `
UPDATE effect_attempt SET excerpt = NULL, excerpt_sealed = NULL, excerpt_key_id = NULL
WHERE effect_id = ANY ($1::uuid[]) AND (excerpt IS NOT NULL OR excerpt_sealed IS NOT NULL)`

	// A Message-ID no longer leads to the effect.
	eraseKeyDigests = `UPDATE effect_attempt SET key_digest = NULL WHERE effect_id = ANY ($1::uuid[]) AND key_digest IS NOT NULL`

	// A duplicate shows its owner's result; its event's document has it too.
	eraseDuplicates = `
WITH shown AS (
    UPDATE effect SET result = NULL, result_key_id = NULL
    WHERE duplicate_of = ANY ($1::uuid[]) AND duplicate_of IS NOT NULL AND result IS NOT NULL AND NOT id = ANY ($1::uuid[])
    RETURNING event_id)
SELECT count(*), coalesce(array_agg(DISTINCT event_id), '{}') FROM shown`

	// What plans of replays keep of the labels. A value that is hashed is not in them.
	erasePlanLabels = `
UPDATE replay r SET scope = r.scope #- '{label,value}'
FROM event_label l
WHERE l.event_id = ANY ($1::uuid[]) AND l.secret_id IS NULL
    AND r.scope->'label'->>'name' = l.name AND convert_to(r.scope->'label'->>'value', 'UTF8') = l.value`

	eraseLabels = `DELETE FROM event_label WHERE event_id = ANY ($1::uuid[])`

	eraseResults = `DELETE FROM operation_result WHERE event_id = ANY ($1::uuid[])`

	// The payloads that were admitted are separate events.
	eraseConflicts = `
WITH gone AS (DELETE FROM conflict WHERE event_id = ANY ($1::uuid[]) RETURNING admitted_as)
SELECT count(*), array_agg(e.event_id ORDER BY e.event_id) FILTER (WHERE e.class <> 'erased')
FROM gone LEFT JOIN inbox_event e ON e.id = gone.admitted_as`

	// What was emitted under the event's id and can never be admitted.
	eraseOutbox = `DELETE FROM outbox WHERE source IN (SELECT coalesce(s.key_name, s.name) FROM source s WHERE s.name = $1) AND event_id = $2 AND refused_at IS NOT NULL`

	// The hash stays, and with it the order: later deliveries with the key belong to the
	// same stream, and do not bring back the key that people see.
	eraseStreams = `
UPDATE stream SET key_label = NULL, key_label_sealed = NULL, key_label_key_id = NULL
WHERE id = ANY ($1::bigint[]) AND (key_label IS NOT NULL OR key_label_sealed IS NOT NULL)`

	eraseDiffs = `UPDATE replay_item SET diff = NULL, diff_key_id = NULL WHERE event_id = ANY ($1::uuid[]) AND diff IS NOT NULL`

	// The hashes stay, so that a redelivery is still recognised.
	eraseEvents = `UPDATE inbox_event SET class = 'erased', conflict_paths = NULL WHERE id = ANY ($1::uuid[])`
)

// EraseEvent removes the bodies, rendered requests, fetched answers, results and excerpts of one event, what replays and
// refusals quote of it, payloads that conflicted with it, its labels, and the documents of operations.
// The sequence keys of its effects are removed from their streams, which are identified by hashes from
// then on. Its key and hashes stay, so that a redelivery is still a duplicate, and so do the decisions
// about it. It cannot be undone. It returns [inbox.ErrNotFound], [ErrInFlight] while an effect is not at
// rest, or [inbox.ErrLocked] if another transaction keeps one of its streams locked.
//
// If a delivery carried several events, the bytes of this one are blanked inside the body and the others
// keep theirs at the same places; a signature over such a body no longer verifies. The headers stay
// until the last of its events is erased. A delivery with only this event is deleted without being
// opened, so that it works even if its key is lost.
//
// If the archive does not answer, the event is erased in the database and EraseEvent returns the error of the archive: the next
// pass of prune removes it there, or a repetition does.
func EraseEvent(ctx context.Context, pool *pgxpool.Pool, r Erase) (Erased, error) {
	e, err := r.begin(ctx, pool)
	if err == nil {
		err = r.eraseArchived(ctx, pool, &e)
	}
	if err == nil {
		err = r.finish(ctx, pool, &e)
	}
	if err != nil {
		return e.out, fmt.Errorf("erasing %s/%s: %w", r.Source, r.EventID, err)
	}
	return e.out, nil
}

// erasure is how far the erasure of an event is.
type erasure struct {
	out    Erased
	source int32
	events []inbox.ID // that lost their content
}

// begin erases the event in its own tables.
func (r *Erase) begin(ctx context.Context, pool *pgxpool.Pool) (e erasure, err error) {
	if err := inbox.CheckExplanation(r.Actor, r.Reason); err != nil {
		return e, err
	}
	err = locks.Retry(ctx, inbox.ErrLocked, func() error {
		e = erasure{}
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			e.source, e.events, err = r.eraseTx(ctx, tx, &e.out)
			return err
		})
	})
	return e, err
}

// eraseArchived erases the events in the archive.
func (r *Erase) eraseArchived(ctx context.Context, pool *pgxpool.Pool, e *erasure) error {
	done, err := archiveOf(r.Archive, pool).Erase(ctx, r.Keyring, e.events)
	e.out.Archived, e.out.Unopened = done.Lines, e.out.Unopened || done.Unopened > 0
	return err
}

// archiveOf returns a, or an archive that only knows what it cannot reach.
func archiveOf(a *archive.Archive, pool *pgxpool.Pool) *archive.Archive {
	if a == nil {
		a, _ = archive.New(archive.Config{Pool: pool}) // New fails only without a pool
	}
	return a
}

// finish erases what refers to no event, and records that the erasure is complete. Refusals belong to no event, so they can be
// deleted after it, in small steps, because all refusals of the source must be searched.
func (r *Erase) finish(ctx context.Context, pool *pgxpool.Pool, e *erasure) error {
	if err := r.eraseRefusals(ctx, pool, e.source, &e.out); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return r.audit(ctx, tx, "done", &e.out) })
}

// erased is an event that loses its content.
type erased struct {
	id             inbox.ID
	class          string
	offset, length int
}

func (e *erased) overlaps(o *erased) bool {
	return e.offset < o.offset+o.length && o.offset < e.offset+e.length
}

func (r *Erase) eraseTx(ctx context.Context, tx pgx.Tx, out *Erased) (source int32, ids []inbox.ID, err error) {
	var body inbox.ID
	var class string
	err = tx.QueryRow(ctx, findErased, r.Source, r.EventID).Scan(&out.Event, &class, &body, &source)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil, inbox.ErrNotFound
	}
	if err != nil {
		return 0, nil, err
	}
	if _, err := tx.Exec(ctx, lockErasedBody, class, body); err != nil {
		return 0, nil, err
	}
	d, err := siblings(ctx, tx, out.Event, body)
	if err != nil {
		return 0, nil, err
	}
	ids = make([]inbox.ID, len(d.erase))
	for i := range d.erase {
		ids[i] = d.erase[i].id
	}
	out.Others = len(d.erase) - 1
	rows, err := tx.Query(ctx, lockErasedStreams, ids)
	if err != nil {
		return 0, nil, err
	}
	streams, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, nil, err
	}
	var effects []inbox.ID
	var underway int
	if err := tx.QueryRow(ctx, lockErasedEffects, ids).Scan(&effects, &underway); err != nil {
		return 0, nil, err
	}
	if underway > 0 {
		return 0, nil, ErrInFlight
	}
	if err := r.eraseBody(ctx, tx, &d, body, out); err != nil {
		return 0, nil, err
	}
	if _, err := tx.Exec(ctx, row.RaiseRevisions, effects); err != nil {
		return 0, nil, err
	}
	var events []inbox.ID
	if err := tx.QueryRow(ctx, eraseDuplicates, effects).Scan(&out.Duplicates, &events); err != nil {
		return 0, nil, err
	}
	if _, err := tx.Exec(ctx, eraseOutbox, r.Source, r.EventID); err != nil {
		return 0, nil, err
	}
	if err := tx.QueryRow(ctx, eraseConflicts, ids).Scan(&out.Conflicts, &out.Admitted); err != nil {
		return 0, nil, err
	}
	if err := r.Archive.NoteErasure(ctx, tx, ids); err != nil {
		return 0, nil, err
	}
	if err := labels.MoveEvents(ctx, tx, ids); err != nil {
		return 0, nil, err
	}
	tag, err := tx.Exec(ctx, eraseStreams, streams)
	if err != nil {
		return 0, nil, err
	}
	out.Streams = int(tag.RowsAffected())
	for _, step := range []struct {
		sql   string
		ids   []inbox.ID
		count *int
	}{
		{eraseEffects, effects, &out.Effects},
		{eraseAttempts, effects, &out.Attempts},
		{eraseKeyDigests, effects, new(int)},
		{eraseResults, append(events, ids...), &out.Results},
		{erasePlanLabels, ids, new(int)},
		{eraseLabels, ids, &out.Labels}, // none waits for the index any more
		{eraseDiffs, ids, &out.Diffs},
		{eraseEvents, ids, new(int)},
	} {
		tag, err := tx.Exec(ctx, step.sql, step.ids)
		if err != nil {
			return 0, nil, err
		}
		*step.count = int(tag.RowsAffected())
	}
	return source, ids, r.audit(ctx, tx, "begun", out)
}

// deliveryEvents are the events of one delivery: those to erase, those that keep their bytes, and those
// that were erased before, perhaps without being blanked.
type deliveryEvents struct{ erase, keep, erasedBefore []erased }

// siblings finds the events of the delivery.
func siblings(ctx context.Context, tx pgx.Tx, id, body inbox.ID) (d deliveryEvents, err error) {
	first, after := sameMillisecond(body)
	rows, err := tx.Query(ctx, lockSiblings, first, after, body)
	if err != nil {
		return d, err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e erased, err error) {
		err = row.Scan(&e.id, &e.class, &e.offset, &e.length)
		return e, err
	})
	if err != nil {
		return d, err
	}
	i := slices.IndexFunc(all, func(e erased) bool { return e.id == id })
	if i < 0 {
		return d, inbox.ErrNotFound // pruned while it was looked for
	}
	d.erase = []erased{all[i]}
	for _, e := range all {
		switch {
		case e.id == id:
		case e.class == row.ErasedClass:
			d.erasedBefore = append(d.erasedBefore, e)
		case e.overlaps(&all[i]):
			d.erase = append(d.erase, e)
		default:
			d.keep = append(d.keep, e)
		}
	}
	return d, nil
}

func (r *Erase) audit(ctx context.Context, tx pgx.Tx, step string, out *Erased) error {
	var now time.Time
	if err := tx.QueryRow(ctx, row.ReadClock).Scan(&now); err != nil {
		return err
	}
	return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: now, Actor: r.Actor, Action: inbox.AuditErase, Object: "event/" + out.Event.String(), Reason: r.Reason,
		Before: map[string]string{"source": r.Source, "step": step}, After: out,
	})
}
