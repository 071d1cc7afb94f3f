package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// Settlement ends an unfinished attempt or moves an effect out of a state at rest.
type Settlement struct {
	Effect ID

	// Event, its Tenant and Attempt are for reports; settling does not ask for them.
	Event   ID
	Tenant  string
	Attempt int

	// Token fences an unfinished attempt: nothing happens unless the effect still
	// has it.
	Token ID

	// From and Version fence a state at rest; they are used if Token is zero.
	From    EffectState
	Version int

	// State is the effect's new state.
	State EffectState

	// After is how long until it is due again, if State is waiting.
	After time.Duration

	Reason  reasons.Reason
	Code    string
	Excerpt string

	// Failure is why the attempt failed. It is stored with the attempt, because Reason may only say that no other
	// attempt follows. If it is empty, Reason is stored.
	Failure reasons.Reason

	// Cause describes in words why the attempt failed, for the log. It contains no content of the event. It is not
	// stored; Excerpt is.
	Cause string

	// Result is what to keep of a success; may be nil.
	Result []byte

	// DuplicateOf is the owner of the effect's key, if State is duplicate: its result
	// is kept with this one.
	DuplicateOf ID

	// Unknown: the attempt may have reached a target that deduplicates.
	Unknown bool

	// Outcome is the outcome in the attempt's row. If it is empty, no row is written and the attempt is not counted.
	Outcome   AttemptOutcome
	Trigger   Trigger // of that attempt; with Rearm, of the first one to come
	StartedAt time.Time

	// Recognised: the target said that it knew the key.
	Recognised bool

	// Unfinished means that the end of the run was not seen, so the next run must allow for that.
	Unfinished bool

	// Rearm gives new attempts: counted from zero, under a new version.
	Rearm bool

	// JobID is the new job that will wake the effect; 0 keeps the one it has.
	JobID int64

	// RouteID and SequenceKeyHash name the stream, if the effect has one.
	RouteID         int32
	SequenceKeyHash []byte

	// Chain is the job whose worker continues with the next effect of the stream, which is claimed in the same
	// transaction. With 0 the next effect gets a job.
	Chain int64

	// Of is the claim that is ended; may be nil. With Chain, the effects that were read ahead under it save the
	// settlement a round trip.
	Of *Claim

	// ResultsForgotten means that the caller, which has the events' locks, deletes the results that become untrue
	// because an effect leaves a state at rest.
	ResultsForgotten bool

	// NewJob means that the job that carried the effect belongs to another effect, so that this one needs its own job
	// if it waits again. For ordered routes.
	NewJob bool
}

// Settled is the result of a [Settlement].
type Settled struct {
	// Applied is false if the fence did not match, because another caller had already ended the attempt or moved the
	// effect.
	Applied bool

	// Standing is the state of the effect now, whether or not the settlement was applied. It is zero for an effect of
	// no stream if the caller passed the wake-ups.
	Standing Standing

	// Next is the claim of the stream's next effect, if the settlement named a Chain and there was such an effect.
	Next *Claim

	// locked means that nothing was done, because another transaction has locked the effect or its stream.
	locked bool
}

// Settle ends an attempt, committed before it returns, together with those of other workers. If another transaction has
// locked the effect or its stream, it tries again until ctx ends, and returns [ErrLocked] then; no other settlement
// waits for that.
func (e *Effects) Settle(ctx context.Context, s Settlement) (Settled, error) {
	group := &e.settles
	var out Settled
	var err error
	if e.inStream(&s) {
		if going, ok := e.planContinuation(&s); ok {
			out, err = e.continuations.Do(ctx, going)
		}
		group = &e.orderedSettles
	}
	if err == nil && !out.Applied {
		out, err = group.Do(ctx, s)
	}
	if row.IsLocked(err) || err == nil && out.locked {
		out, err = e.settleLocked(ctx, s, group)
	}
	if err != nil {
		return Settled{}, fmt.Errorf("settling effect %s: %w", s.Effect, err)
	}
	return out, nil
}

// SettleTx ends an attempt in the transaction in which the effect acted. It returns [ErrLocked] if another transaction
// has locked the effect or its stream: the caller must then roll back.
func (e *Effects) SettleTx(ctx context.Context, tx pgx.Tx, s Settlement) (Settled, error) {
	out, err := e.SettleLocked(ctx, tx, []Settlement{s}, nil)
	if err != nil && !row.IsLocked(err) {
		return Settled{}, fmt.Errorf("settling effect %s: %w", s.Effect, err)
	}
	if err != nil || out[0].locked {
		return Settled{}, fmt.Errorf("settling effect %s: %w", s.Effect, ErrLocked)
	}
	return out[0], nil
}

func (e *Effects) settleGroup(ctx context.Context, group []Settlement) ([]Settled, error) {
	return e.SettleLocked(ctx, e.pool, group, nil)
}

// These statements end the effects whose rows are locked, and record their attempts.
const (
	endHeld = `
    UPDATE effect e
    SET state = a.state,
        lease_token = NULL,
        lease_until = NULL,
        next_at = CASE WHEN a.state IN ('pending', 'retry') THEN now() + a.after * interval '1 microsecond' END,
        finished_at = CASE WHEN a.state IN ('done', 'superseded', 'skipped', 'duplicate') THEN now() END,
        send_started_at = CASE WHEN a.state NOT IN ('pending', 'retry') THEN e.send_started_at END,
        reason = nullif(a.reason, ''),
        last_code = CASE WHEN a.rearm OR a.token IS NOT NULL AND a.outcome = '' AND a.state IN ('pending', 'retry') THEN e.last_code ELSE nullif(a.code, '') END,
        result = CASE WHEN a.state = 'duplicate' THEN (SELECT o.result FROM effect o WHERE o.id = a.duplicate_of)
            ELSE coalesce(a.result, e.result) END,
        result_key_id = CASE WHEN a.state = 'duplicate' THEN (SELECT o.result_key_id FROM effect o WHERE o.id = a.duplicate_of)
            WHEN a.result IS NULL THEN e.result_key_id ELSE a.result_key_id END,
        duplicate_of = CASE WHEN a.state = 'duplicate' THEN a.duplicate_of END,
        unknown_since = coalesce(e.unknown_since, CASE WHEN a.unknown THEN a.started_at END),
        unknown_lease = coalesce(e.unknown_lease, CASE WHEN a.unknown OR a.state = 'indeterminate' THEN e.lease_token END),
        unfinished = a.unfinished OR e.unfinished AND a.token IS NOT NULL AND a.outcome = '' AND a.state IN ('pending', 'retry'),
        job_id = coalesce(nullif(a.job_id, 0), e.job_id),
        attempts = CASE WHEN a.rearm THEN 0 WHEN a.token IS NOT NULL AND a.outcome = '' THEN e.attempts - 1 ELSE e.attempts END,
        version = CASE WHEN a.rearm THEN e.version + 1 ELSE e.version END,
        revision = CASE WHEN a.token IS NULL THEN e.revision + 1 ELSE e.revision END,
        rearms = CASE WHEN a.rearm AND a.trigger = 'replay' THEN 0 WHEN a.rearm THEN e.rearms + 1 ELSE e.rearms END,
        fresh_trigger = CASE WHEN a.rearm THEN nullif(a.trigger, '') ELSE e.fresh_trigger END,
        rearmed_at = CASE WHEN a.rearm THEN now() ELSE e.rearmed_at END
    FROM held a
    WHERE e.id = a.id
    RETURNING a.place, e.id, e.attempts, e.version, a.trigger, a.started_at, a.outcome, a.code, a.excerpt, a.recognised,
        a.excerpt_sealed, a.excerpt_key_id, a.reason AS ended, a.failure, e.idempotency_key`

	recordAttempts = `
attempted AS (
    INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, code, excerpt, recognised,
        excerpt_sealed, excerpt_key_id, reason, key_digest)
    SELECT s.id, s.attempts, s.version, s.trigger, $17::text, least(s.started_at, now()), now(), s.outcome, nullif(s.code, ''),
        nullif(s.excerpt, ''), s.recognised, s.excerpt_sealed, s.excerpt_key_id, coalesce(nullif(s.failure, ''), nullif(s.ended, '')),
        CASE WHEN s.outcome <> 'skipped' THEN substring(sha256(convert_to(s.idempotency_key, 'UTF8')) FOR 16) END
    FROM settled s
    WHERE s.outcome <> '')`
)

// settleEffects is the only way out of an unfinished attempt or of a state at rest; [continueInStreams] does the same
// for the next effect in a stream. The fence is read under the row's lock, and of two settlements in one group only the
// one whose fence matches is applied (hence the place). The statement neither waits for a row that another transaction
// has locked nor returns it, so that one row does not delay the group. An attempt without an outcome does not count: it
// is subtracted from the attempts, and the next one still allows for the run before it whose end was not seen.
var settleEffects = `
WITH asked AS (
    SELECT *
    FROM unnest(` + settleArrays + `) WITH ORDINALITY
        AS a (` + settleNames + `, place)),
reached AS MATERIALIZED (
    SELECT a.*, ` + fenceHolds + ` AS fenced
    FROM asked a
    JOIN effect e ON e.id = a.id
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED),
held AS (SELECT * FROM reached WHERE fenced),
settled AS (` + endHeld + `),` + recordAttempts + `
SELECT place, true FROM settled
UNION ALL
SELECT place, false FROM reached WHERE fenced IS NOT TRUE`

// fenceHolds says whether a locked effect e has the token, or the state and version, that the settlement a expects.
const fenceHolds = `CASE WHEN a.token IS NOT NULL THEN e.lease_token = a.token
        ELSE e.lease_token IS NULL AND e.state = a.from_state AND e.version = a.version END`

// A superseded effect releases its key, and so does a skipped one that certainly never happened. Any other keeps it,
// even after a person decides about it, because a later event of the key would repeat what may have happened. What a shadow
// effect would have done has happened elsewhere, so that it keeps its key as well.
const releaseKeys = `
WITH released AS MATERIALIZED (
    SELECT k.route_id, k.key_hash
    FROM effect_key k
    JOIN effect o ON o.id = k.effect_id
    WHERE k.effect_id = ANY ($1::uuid[]) AND (o.state = 'superseded' OR o.state = 'skipped' AND o.reason <> 'shadow' AND ` + row.NoneHappened + `)
    ORDER BY k.route_id, k.key_hash
    FOR UPDATE OF k NOWAIT)
DELETE FROM effect_key k
USING released r
WHERE k.route_id = r.route_id AND k.key_hash = r.key_hash`

// An owner that lost its key while it was dead may become the duplicate of the new owner. Its own duplicates then
// become duplicates of the new owner too, with its result, so that a duplicate never points at a duplicate.
const followOwners = `
WITH followers AS MATERIALIZED (
    SELECT d.id, a.owner
    FROM unnest($1::uuid[], $2::uuid[]) AS a (id, owner)
    JOIN effect e ON e.id = a.id AND e.state = 'duplicate' AND e.duplicate_of = a.owner
    JOIN effect d ON d.duplicate_of = a.id AND d.duplicate_of IS NOT NULL
    ORDER BY d.id
    FOR NO KEY UPDATE OF d)
UPDATE effect d
SET duplicate_of = f.owner, result = o.result, result_key_id = o.result_key_id
FROM followers f
JOIN effect o ON o.id = f.owner
WHERE d.id = f.id`

// A result that says indeterminate was true when it was rendered. It is rendered again after one of its effects leaves
// a state at rest. Only a replay deletes a result that says that something failed ([row.ForgetResults]), and nothing
// deletes one that says done. A caller that renders has the event's lock, so no untrue result remains if the deleting
// caller has that lock too.
const forgetIndeterminate = `
DELETE FROM operation_result d
WHERE d.status = 'indeterminate' AND d.event_id = ANY (ARRAY (
    SELECT e.event_id FROM effect e WHERE e.id = ANY ($1::uuid[])
    UNION ALL
    SELECT f.event_id FROM effect f WHERE f.duplicate_of = ANY ($1::uuid[]) AND f.duplicate_of IS NOT NULL))`

// A job that this process may not replace may wake the effect, so the caller gets its id.
const readStandings = `
SELECT id, state, route_id, coalesce(job_id, 0), unfinished,
    coalesce((extract(epoch FROM next_at - now()) * 1000000)::bigint, 0)
FROM effect
WHERE id = ANY ($1::uuid[])`

// SettleLocked is the only way out of an unfinished attempt or of a state at rest, for every caller. Without ordered
// routes it takes one round trip; sent to a pool it is a separate transaction. The wakes are inserted with it. The
// order of locks is event, stream, effect, effect key: a caller that has locked an effect has locked its stream before.
func (e *Effects) SettleLocked(ctx context.Context, db row.Batcher, group []Settlement, wakes []Wake) ([]Settled, error) {
	out := make([]Settled, len(group))
	var ordered, plain []Settlement
	var orderedAt, plainAt []int
	for i := range group {
		if e.inStream(&group[i]) {
			ordered, orderedAt = append(ordered, group[i]), append(orderedAt, i)
		} else {
			plain, plainAt = append(plain, group[i]), append(plainAt, i)
		}
	}
	if len(ordered) > 0 {
		settled, err := e.settleOrderedTx(ctx, db, ordered)
		if err != nil {
			return nil, err
		}
		for i, at := range orderedAt {
			out[at] = settled[i]
		}
	}
	var b pgx.Batch
	settled := func() []Settled { return nil }
	if len(plain) > 0 {
		settled = e.queueSettle(&b, plain, wakes)
	} else {
		e.enqueuer.EnqueueTx(&b, wakes)
	}
	if b.Len() == 0 {
		return out, nil
	}
	if err := db.SendBatch(ctx, &b).Close(); err != nil {
		return nil, err
	}
	for i, s := range settled() {
		out[plainAt[i]] = s
	}
	return out, nil
}

// inStream reports whether a settlement advances a stream. A route that this process does not know may be ordered.
func (e *Effects) inStream(s *Settlement) bool {
	route, known := e.routes[s.RouteID]
	return s.SequenceKeyHash != nil && (!known || route.Order.Ordered())
}

// queueSettle queues the statements for effects of no stream. The caller calls the returned function after it has read
// their results.
func (e *Effects) queueSettle(b *pgx.Batch, group []Settlement, wakes []Wake) func() []Settled {
	ids := make([]ID, len(group))
	for i := range group {
		ids[i] = group[i].Effect
	}
	applied, tried := e.queueEnd(b, group)
	e.enqueuer.EnqueueTx(b, wakes)
	var standings map[ID]Standing
	if wakes == nil {
		standings = queueStandings(b, ids)
	}
	return func() []Settled {
		out := make([]Settled, len(group))
		for i, s := range group {
			out[i] = Settled{Applied: applied[i], Standing: standings[s.Effect]}
			out[i].locked = !tried[i] && out[i].Standing.Found
		}
		return out
	}
}

// queueEnd queues the ends themselves. When the batch has been read, applied and tried say which were applied and which
// were tried. An effect that was not tried is locked by another transaction, or gone.
func (e *Effects) queueEnd(b *pgx.Batch, group []Settlement) (applied, tried []bool) {
	args := e.settleArguments(group, 0)
	applied, tried = make([]bool, len(group)), make([]bool, len(group))
	b.Queue(settleEffects, args...).Query(func(rows pgx.Rows) error {
		var place int64
		var ended bool
		_, err := pgx.ForEachRow(rows, []any{&place, &ended}, func() error {
			tried[place-1], applied[place-1] = true, ended
			return nil
		})
		return err
	})
	queueAfterEnd(b, group, args[0])
	return applied, tried
}

// queueAfterEnd queues the statements that must follow the end of some settlements.
func queueAfterEnd(b *pgx.Batch, group []Settlement, ids any) {
	if slices.ContainsFunc(group, func(s Settlement) bool { return s.State == EffectSuperseded || s.State == EffectSkipped }) {
		b.Queue(releaseKeys, ids)
	}
	if slices.ContainsFunc(group, func(s Settlement) bool { return s.State == EffectDuplicate }) {
		b.Queue(followOwners, ids, duplicatesOf(group))
	}
	if slices.ContainsFunc(group, func(s Settlement) bool { return s.Token.IsZero() && !s.ResultsForgotten }) {
		b.Queue(forgetIndeterminate, ids)
	}
}

// queueStandings queues reading the states of the effects.
func queueStandings(b *pgx.Batch, ids []ID) map[ID]Standing {
	standings := make(map[ID]Standing, len(ids))
	b.Queue(readStandings, ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id ID
			var wait int64
			s := Standing{Found: true}
			if err := rows.Scan(&id, &s.State, &s.RouteID, &s.JobID, &s.Unfinished, &wait); err != nil {
				return err
			}
			s.Wait = time.Duration(wait) * time.Microsecond
			standings[id] = s
		}
		return rows.Err()
	})
	return standings
}
