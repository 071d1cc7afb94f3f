package inbox

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
)

// The second statement of the same transaction reads the claims of the first one and
// the states of the other effects. It reads bodies only for claimed effects, one at a
// time through the primary key of the partition, regardless of the planner's estimate.
// A sealed body is cut after it is opened.
const readClaims = `
SELECT` + claimColumns + `, b.headers, b.body, b.key_id
FROM effect e
JOIN inbox_event v ON v.id = e.event_id
LEFT JOIN LATERAL (` + bodyOf + `) b ON e.lease_token = ANY ($2::uuid[]) AND (e.item = 0 OR e.rendered IS NULL)
WHERE e.id = ANY ($1::uuid[])`

// What a claim is made of but for the body, of effect e and its event v.
const claimColumns = `
    e.id, e.state, e.route_id, coalesce(e.job_id, 0), e.unfinished, e.lease_token,
    coalesce((extract(epoch FROM e.next_at - now()) * 1000000)::bigint, 0),
    e.attempts, e.version, e.fresh_trigger, now(), e.idempotency_key, e.rendered, e.rendered_key_id, e.fetched, e.fetched_key_id, e.item, e.route_version, e.key_hash, e.unknown_since, e.unknown_lease,
    e.sequence_key_hash, coalesce(e.sequence_number::text, ''),
    greatest(v.received_at, e.rearmed_at),
    v.id, v.event_id, v.type, v.occurred_at, v.received_at, coalesce(v.traceparent, ''), coalesce(v.tenant, ''), v.parent,
    v.class, v.body_id, v.body_offset, v.body_length, e.shadow`

// The body of event v.
const bodyOf = `
    SELECT p.headers, p.key_id,
        CASE WHEN p.key_id IS NULL THEN substring(p.body FROM v.body_offset + 1 FOR v.body_length) ELSE p.body END AS body
    FROM inbox_body p
    WHERE p.class = v.class AND p.id = v.body_id
    LIMIT 1`

// claimRows are the effects that were asked for, as they stand.
type claimRows map[ID]*claimRow

// queueReadClaims queues reading them; they are there when the batch has been read.
func (e *Effects) queueReadClaims(b *pgx.Batch, ids, tokens []ID) claimRows {
	rows := make(claimRows, len(ids))
	b.Queue(readClaims, ids, tokens).Query(func(r pgx.Rows) error {
		for r.Next() {
			row := new(claimRow)
			if err := row.scan(r); err != nil {
				return err
			}
			row.open(e.keys)
			rows[row.claim.Effect] = row
		}
		return r.Err()
	})
	return rows
}

// answer returns the claim if it was made under the token, and the effect's standing.
func (rows claimRows) answer(effect, token ID) claimAnswer {
	row, ok := rows[effect]
	if !ok {
		return claimAnswer{}
	}
	a := claimAnswer{standing: row.standing, hash: row.claim.SequenceKeyHash, numbered: row.claim.SequenceNumber != ""}
	if row.claim.Token == token {
		a.claim = &row.claim
	}
	return a
}

type claimRow struct {
	claim       Claim
	standing    Standing
	renderedKey *int32
	fetchedKey  *int32
	stored      storedBody
}

// storedBody is the body of an event as its row has it, and where that is.
type storedBody struct {
	class          string
	id             ID
	offset, length int

	headers, body []byte // nil if it is gone
	keyID         *int32
}

// scan reads a row of [readClaims], and what follows it.
func (row *claimRow) scan(r pgx.Rows, more ...any) error {
	var (
		state      string
		wait       int64
		fresh      *Trigger
		occurredAt pgtype.Timestamptz
		unknown    pgtype.Timestamptz
		lease      *ID
		c          = &row.claim
		b          = &row.stored
	)
	err := r.Scan(append([]any{
		&c.Effect, &state, &c.RouteID, &row.standing.JobID, &row.standing.Unfinished, &c.Token,
		&wait, &c.Attempt, &c.Version, &fresh, &c.StartedAt, &c.Key, &c.Rendered, &row.renderedKey, &c.Fetched, &row.fetchedKey,
		&c.Item, &c.RouteVersion, &c.KeyHash, &unknown, &lease,
		&c.SequenceKeyHash, &c.SequenceNumber, &c.Since,
		&c.Event.ID, &c.Event.EventID, &c.Event.Type, &occurredAt, &c.Event.ReceivedAt, &c.Event.Traceparent, &c.Event.Tenant, &c.Event.Parent,
		&b.class, &b.id, &b.offset, &b.length, &c.Shadow, &b.headers, &b.body, &b.keyID,
	}, more...)...)
	if err != nil {
		return err
	}
	if occurredAt.Valid {
		c.Event.OccurredAt = occurredAt.Time
	}
	if unknown.Valid {
		c.UnknownSince = unknown.Time
	}
	if lease != nil {
		c.unknownLease = *lease
	}
	row.standing.Found = true
	row.standing.State = EffectState(state)
	row.standing.Shadow = c.Shadow
	row.standing.RouteID = c.RouteID
	row.standing.Wait = time.Duration(wait) * time.Microsecond
	row.standing.Age = c.StartedAt.Sub(c.Since)
	c.Trigger = triggerOf(c.Attempt, fresh, row.standing.Unfinished)
	return nil
}

// open sets the event's body in the claim, and opens what is sealed.
func (row *claimRow) open(keys *seal.Keyring) {
	c, b := &row.claim, &row.stored
	c.Event.Headers, c.Event.Body = b.headers, b.body
	if c.Event.BodyGone = c.Event.Body == nil; c.Event.BodyGone {
		c.Event.GoneReason = reasons.BodyGone
	}
	c.open(keys, row.renderedKey, row.fetchedKey, b.keyID, b.id, b.offset, b.length)
}

func triggerOf(attempt int, fresh *Trigger, unfinished bool) Trigger {
	switch {
	case unfinished:
		return TriggerSweep
	case attempt > 1:
		return TriggerAutomatic
	case fresh != nil:
		return *fresh
	}
	return TriggerInitial
}

// open opens the sealed parts of a claim. A part that cannot be opened counts as gone,
// so that other claims do not fail with it: the effect waits for a missing key, and is
// dead if its content is damaged.
func (c *Claim) open(keys *seal.Keyring, renderedKey, fetchedKey, bodyKey *int32, bodyID ID, offset, length int) {
	if c.Event.Body == nil && c.Rendered == nil && c.Fetched == nil {
		return
	}
	var errs [4]error
	c.Event.Headers, errs[0] = keys.Open(place.Headers(bodyID), bodyKey, c.Event.Headers)
	c.Event.Body, errs[1] = place.OpenPart(keys, bodyID, bodyKey, c.Event.Body, offset, length)
	c.Rendered, errs[2] = keys.Open(place.Rendered(c.Effect), renderedKey, c.Rendered)
	c.Fetched, errs[3] = keys.Open(place.Fetched(c.Effect), fetchedKey, c.Fetched)
	if err := errors.Join(errs[:]...); err != nil {
		c.Event.Headers, c.Event.Body, c.Rendered, c.Fetched = nil, nil, nil, nil
		c.Event.BodyGone = true
		c.Event.GoneReason, c.Event.MissingKey = UnopenedReason(err)
	}
}

// UnopenedReason says why sealed content cannot be opened: this process lacks the key, which another one may have, or
// no key opens the content.
func UnopenedReason(err error) (why reasons.Reason, missing int32) {
	if lost, ok := errors.AsType[*seal.LostError](err); ok {
		return reasons.KeyMissing, lost.Key
	}
	return reasons.Damaged, 0
}
