package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncegate/oncegate/inbox/seal"
)

type claimAsk struct {
	effect, token ID
	jobID         int64
}

type claimAnswer struct {
	claim    *Claim
	standing Standing
	hash     []byte // of the sequence key
	numbered bool
}

// Claim takes an effect of an outside kind, or of an ordered route, for one attempt,
// committed before it returns, together with the claims of other workers. The claim
// is nil if the effect is not due, is at rest, is settled, is somebody else's, has to
// wait for another one of its sequence, is of a kind inside the database and not
// ordered, or of a route that this process does not know; Standing says which.
func (e *Effects) Claim(ctx context.Context, effect ID, jobID int64) (*Claim, Standing, error) {
	answer, err := e.claims.do(ctx, claimAsk{effect: effect, token: newToken(), jobID: jobID})
	if err == nil && answer.claim == nil {
		answer, err = e.claimInOrder(ctx, effect, jobID, answer)
	}
	if err != nil {
		return nil, Standing{}, fmt.Errorf("claiming effect %s: %w", effect, err)
	}
	return answer.claim, answer.standing, nil
}

// claimInOrder claims an effect of an ordered route, of whatever kind; asked is what
// is known of it. One that has no place in an order (its route took it without a
// key, or without a number) is claimed as it is.
func (e *Effects) claimInOrder(ctx context.Context, effect ID, jobID int64, asked claimAnswer) (claimAnswer, error) {
	at := asked.standing
	route, known := e.routes[at.RouteID]
	if !at.Found || !known || !route.Order.Ordered() || at.Wait > 0 || !at.State.Waiting() && at.State != EffectHeld {
		return asked, nil
	}
	if asked.hash == nil || !asked.numbered {
		if at.State == EffectHeld {
			return asked, nil // until a person decides
		}
		return e.unnumbered.do(ctx, claimAsk{effect: effect, token: newToken(), jobID: jobID})
	}
	return e.ordered.do(ctx, orderAsk{effect: effect, token: newToken(), jobID: jobID, routeID: at.RouteID, hash: asked.hash})
}

// ClaimTx takes an effect of a kind inside the database in the transaction that
// will also act and settle. A row that somebody else has locked is not waited
// for: the claim is then nil.
func (e *Effects) ClaimTx(ctx context.Context, tx pgx.Tx, effect ID, jobID int64, routeID int32) (*Claim, Standing, error) {
	route, ok := e.routes[routeID]
	if !ok {
		return nil, Standing{}, fmt.Errorf("claiming effect %s: route %d is not known", effect, routeID)
	}
	var known knownRoutes
	known.add(routeID, route.Lease)
	answers, err := e.claimEffects(ctx, tx, known, []claimAsk{{effect: effect, token: newToken(), jobID: jobID}})
	if err != nil {
		return nil, Standing{}, fmt.Errorf("claiming effect %s: %w", effect, err)
	}
	return answers[0].claim, answers[0].standing, nil
}

// Begin begins a transaction in which an effect inside the database acts.
func (e *Effects) Begin(ctx context.Context) (pgx.Tx, error) { return e.pool.Begin(ctx) }

// FenceTx locks a claimed effect in the transaction that will act and settle. It
// reports false if the claim is no longer the caller's. An effect of a stream is only
// looked at, since its stream has to be locked before it: there, the settlement is the
// fence, and what it does not apply must be rolled back.
func (e *Effects) FenceTx(ctx context.Context, tx pgx.Tx, claim *Claim) (bool, error) {
	var held bool
	fence := fenceEffect
	if e.routes[claim.RouteID].Order.Ordered() {
		fence = lookAtEffect
	}
	if err := tx.QueryRow(ctx, fence, claim.Effect, claim.Token).Scan(&held); err != nil {
		return false, fmt.Errorf("fencing effect %s: %w", claim.Effect, err)
	}
	return held, nil
}

// An aggregate over the locked row, so that none is an answer and not an error.
const fenceEffect = `
WITH held AS MATERIALIZED (
    SELECT id FROM effect WHERE id = $1 AND lease_token = $2 FOR UPDATE)
SELECT count(*) = 1 FROM held`

const lookAtEffect = `
SELECT count(*) = 1 FROM effect WHERE id = $1 AND lease_token = $2`

func (e *Effects) claimGroup(ctx context.Context, asks []claimAsk) ([]claimAnswer, error) {
	return e.claimEffects(ctx, e.pool, e.outside, asks)
}

// Rows are locked in the order of their ids, and a row that another transaction
// has is not waited for: whoever has it will end it. The job that woke us
// becomes the effect's own, so that the sweeper looks at it. What is due is asked
// inside a coalesce, which no index answers: with statistics of a time at which
// nothing was due, all that is due now would be walked for each ask.
const claimDue = `
WITH due AS MATERIALIZED (
    SELECT e.id, a.token, a.job_id, now() + r.lease * interval '1 microsecond' AS lease_until
    FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS a (id, token, job_id)
    JOIN effect e ON e.id = a.id
    JOIN unnest($4::int[], $5::bigint[]) AS r (route_id, lease) ON r.route_id = e.route_id
    WHERE coalesce(e.state IN ('pending', 'retry') AND e.next_at <= now(), false)
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED)
UPDATE effect e
SET state = 'claimed', lease_token = d.token, lease_until = d.lease_until, next_at = d.lease_until,
    job_id = d.job_id, attempts = e.attempts + 1, send_started_at = NULL
FROM due d
WHERE e.id = d.id`

// The second statement of the same transaction reads what the first one claimed
// and where the others stand. The body is read for claimed ones alone, one at a
// time through its partition's primary key whatever the planner thinks of it. A
// sealed one is cut when it is open.
const readClaims = `
SELECT` + claimColumns + `, b.headers, b.body, b.key_id
FROM effect e
JOIN inbox_event v ON v.id = e.event_id
LEFT JOIN LATERAL (` + bodyOf + `) b ON e.lease_token = ANY ($2::uuid[])
WHERE e.id = ANY ($1::uuid[])`

// What a claim is made of but for the body, of effect e and its event v.
const claimColumns = `
    e.id, e.state, e.route_id, coalesce(e.job_id, 0), e.unfinished, e.lease_token,
    coalesce((extract(epoch FROM e.next_at - now()) * 1000000)::bigint, 0),
    e.attempts, e.version, e.fresh_trigger, now(), e.idempotency_key, e.rendered, e.rendered_key_id, e.item, e.key_hash, e.unknown_since,
    e.sequence_key_hash, coalesce(e.sequence_number::text, ''),
    greatest(v.received_at, e.rearmed_at),
    v.id, v.event_id, v.type, v.occurred_at, v.received_at, coalesce(v.traceparent, ''),
    v.class, v.body_id, v.body_offset, v.body_length`

// The body of event v.
const bodyOf = `
    SELECT p.headers, p.key_id,
        CASE WHEN p.key_id IS NULL THEN substring(p.body FROM v.body_offset + 1 FOR v.body_length) ELSE p.body END AS body
    FROM inbox_body p
    WHERE p.class = v.class AND p.id = v.body_id
    LIMIT 1`

func (e *Effects) claimEffects(ctx context.Context, db batcher, known knownRoutes, asks []claimAsk) ([]claimAnswer, error) {
	var b pgx.Batch
	answers := e.queueClaims(&b, known, asks)
	// Close answers for the commit.
	if err := db.SendBatch(ctx, &b).Close(); err != nil {
		return nil, err
	}
	return answers(), nil
}

// queueClaims queues the statements; what it returns is to be called when they
// have been read.
func (e *Effects) queueClaims(b *pgx.Batch, known knownRoutes, asks []claimAsk) func() []claimAnswer {
	ids, tokens, jobs := make([]ID, len(asks)), make([]ID, len(asks)), make([]int64, len(asks))
	for i, a := range asks {
		ids[i], tokens[i], jobs[i] = a.effect, a.token, a.jobID
	}
	b.Queue(claimDue, ids, tokens, jobs, known.ids, known.leases)
	rows := e.queueReadClaims(b, ids, tokens)
	return func() []claimAnswer {
		answers := make([]claimAnswer, len(asks))
		for i, a := range asks {
			answers[i] = rows.answer(a.effect, a.token)
		}
		return answers
	}
}

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

// answer is the claim if it was made under the token, and where the effect stands.
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
		c          = &row.claim
		b          = &row.stored
	)
	err := r.Scan(append([]any{
		&c.Effect, &state, &c.RouteID, &row.standing.JobID, &row.standing.Unfinished, &c.Token,
		&wait, &c.Attempt, &c.Version, &fresh, &c.StartedAt, &c.Key, &c.Rendered, &row.renderedKey,
		&c.Item, &c.KeyHash, &unknown,
		&c.SequenceKeyHash, &c.SequenceNumber, &c.Since,
		&c.Event.ID, &c.Event.EventID, &c.Event.Type, &occurredAt, &c.Event.ReceivedAt, &c.Event.Traceparent,
		&b.class, &b.id, &b.offset, &b.length, &b.headers, &b.body, &b.keyID,
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
	row.standing.Found = true
	row.standing.State = EffectState(state)
	row.standing.RouteID = c.RouteID
	row.standing.Wait = time.Duration(wait) * time.Microsecond
	c.Trigger = triggerOf(c.Attempt, fresh, row.standing.Unfinished)
	return nil
}

// open gives the claim its event's body, opened.
func (row *claimRow) open(keys *seal.Keyring) {
	c, b := &row.claim, &row.stored
	c.Event.Headers, c.Event.Body = b.headers, b.body
	if c.Event.BodyGone = c.Event.Body == nil; c.Event.BodyGone {
		c.Event.GoneReason = ReasonBodyGone
	}
	c.open(keys, row.renderedKey, b.keyID, b.id, b.offset, b.length)
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

type sendStart struct {
	effect, token ID
	rendered      []byte
	started       bool
	keyID         *int32
}

// StartSend commits, before the first byte leaves, what must be known if the
// attempt's end is never seen: the bytes that will be sent (nil if they are the
// body as received) and, for a target that cannot deduplicate, that sending
// began. It reports false if the claim is no longer the caller's: nothing may
// be sent then.
func (e *Effects) StartSend(ctx context.Context, claim *Claim, rendered []byte, started bool) (bool, error) {
	sealed, keyID := e.keys.Seal(renderedPlace(claim.Effect), rendered)
	ok, err := e.starts.do(ctx, sendStart{effect: claim.Effect, token: claim.Token, rendered: sealed, keyID: keyID, started: started})
	if err != nil {
		return false, fmt.Errorf("starting the send of effect %s: %w", claim.Effect, err)
	}
	return ok, nil
}

// What was rendered first stays: every attempt sends the same bytes.
const startSends = `
WITH held AS MATERIALIZED (
    SELECT e.id, a.rendered, a.started, a.key_id
    FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::boolean[], $5::int[]) AS a (id, token, rendered, started, key_id)
    JOIN effect e ON e.id = a.id AND e.lease_token = a.token AND e.lease_until > now()
    ORDER BY e.id
    FOR UPDATE OF e)
UPDATE effect e
SET rendered = coalesce(e.rendered, h.rendered),
    rendered_key_id = CASE WHEN e.rendered IS NULL THEN h.key_id ELSE e.rendered_key_id END,
    send_started_at = CASE WHEN h.started THEN now() ELSE e.send_started_at END
FROM held h
WHERE e.id = h.id
RETURNING e.lease_token`

func (e *Effects) startGroup(ctx context.Context, asks []sendStart) ([]bool, error) {
	ids, tokens := make([]ID, len(asks)), make([]ID, len(asks))
	rendered, started, keyIDs := make([][]byte, len(asks)), make([]bool, len(asks)), make([]*int32, len(asks))
	for i, a := range asks {
		ids[i], tokens[i], rendered[i], started[i], keyIDs[i] = a.effect, a.token, a.rendered, a.started, a.keyID
	}
	rows, err := e.pool.Query(ctx, startSends, ids, tokens, rendered, started, keyIDs)
	if err != nil {
		return nil, err
	}
	held, err := pgx.CollectRows(rows, pgx.RowTo[ID])
	if err != nil {
		return nil, err
	}
	mine := make(map[ID]bool, len(held))
	for _, token := range held {
		mine[token] = true
	}
	out := make([]bool, len(asks))
	for i, a := range asks {
		out[i] = mine[a.token]
	}
	return out, nil
}

// Postpone puts an effect off that this process can do nothing for, without
// spending an attempt.
func (e *Effects) Postpone(ctx context.Context, effect ID, by time.Duration) error {
	if _, err := e.postpones.do(ctx, postponement{effect: effect, by: by}); err != nil {
		return fmt.Errorf("postponing effect %s: %w", effect, err)
	}
	return nil
}

// A row that somebody else has locked is being worked on.
const postponeEffects = `
WITH due AS MATERIALIZED (
    SELECT e.id, a.by
    FROM unnest($1::uuid[], $2::bigint[]) AS a (id, by)
    JOIN effect e ON e.id = a.id
    WHERE e.state IN ('pending', 'retry')
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED)
UPDATE effect e SET next_at = now() + d.by * interval '1 microsecond'
FROM due d
WHERE e.id = d.id`

type postponement struct {
	effect ID
	by     time.Duration
}

func (e *Effects) postponeGroup(ctx context.Context, asks []postponement) ([]struct{}, error) {
	ids, waits := make([]ID, len(asks)), make([]int64, len(asks))
	for i, a := range asks {
		ids[i], waits[i] = a.effect, a.by.Microseconds()
	}
	_, err := e.pool.Exec(ctx, postponeEffects, ids, waits)
	return make([]struct{}, len(asks)), err
}

// MarkUnfinished notes that a run of a waiting effect did not end, so that the
// next one commits its claim before it acts.
func (e *Effects) MarkUnfinished(ctx context.Context, effect ID) error {
	if _, err := e.pool.Exec(ctx, markUnfinished, effect); err != nil {
		return fmt.Errorf("marking effect %s: %w", effect, err)
	}
	return nil
}

const markUnfinished = `
UPDATE effect SET unfinished = true WHERE id = $1 AND state IN ('pending', 'retry')`
