package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ParentState is the state of a route in the calls that an operation follows.
type ParentState string

// The states of a route in an earlier call.
const (
	// ParentNone: no earlier call has carried it out, or may have.
	ParentNone ParentState = "none"
	// ParentDone: an earlier call has carried it out.
	ParentDone ParentState = "done"
	// ParentPartial: an earlier call has carried out some of the items of its list, and the others certainly not.
	ParentPartial ParentState = "partial"
	// ParentOpen: the outcome is not known yet, or the effect may have happened: a person, a probe or a replay may
	// still change it.
	ParentOpen ParentState = "open"
	// ParentGone: the outcome of an earlier call was pruned, or a person ended its effect without knowing the outcome, so the
	// effect may have happened.
	ParentGone ParentState = "gone"
)

// ParentEffect is the effect of a route in the calls that an operation follows.
type ParentEffect struct {
	State ParentState

	// Effect is the one that has happened.
	Effect ID
}

// A call that resumes another one is followed back to the first call of its line. Each row is the effect of the route in one of
// these calls, or its owner if it was a duplicate; it is null where the call has none. The event of a call may be gone.
const readParentEffects = `
WITH RECURSIVE line (parent) AS (
    SELECT f.parent FROM operation_follow f WHERE f.child = $1 AND f.kind = 'resumes'
    UNION
    SELECT f.parent FROM line l JOIN operation_follow f ON f.child = l.parent AND f.kind = 'resumes')
SELECT DISTINCT l.parent, coalesce(e.duplicate_of, e.id)
FROM line l
LEFT JOIN effect e ON e.event_id = l.parent AND e.route_id = $2 AND e.item = 0`

const readFollowKind = `SELECT kind FROM operation_follow WHERE child = $1`

// The share lock reveals a replay that is about to begin, because that replay has locked the row; a replay that begins
// later sees the call that asks here. The statement skips a row that another transaction has locked, because that
// transaction may have locks that come after it in the order of locks.
const lockParentEffects = `
SELECT e.id, e.state, e.unknown_since IS NOT NULL, e.unknown_before
FROM effect e
WHERE e.id = ANY ($1::uuid[])
ORDER BY e.id
FOR SHARE OF e SKIP LOCKED`

const readParentItems = `
SELECT e.event_id,
    count(*) FILTER (WHERE coalesce(o.state, e.state) IN ('done', 'superseded')),
    count(*) FILTER (WHERE coalesce(o.state, e.state) NOT IN ('done', 'superseded', 'skipped') OR e.state = 'skipped' AND e.reason = 'list_cancelled'),
    count(*) FILTER (WHERE coalesce(o.state, e.state) IN ('pending', 'claimed', 'retry', 'held', 'indeterminate')
        OR coalesce(o.state, e.state) = 'dead' AND coalesce(o.unknown_since, e.unknown_since) IS NOT NULL),
    count(*) FILTER (WHERE coalesce(o.state, e.state) = 'skipped' AND coalesce(o.unknown_since, e.unknown_since) IS NOT NULL
        OR coalesce(o.state, e.state) IN ('dead', 'skipped') AND coalesce(o.unknown_before, e.unknown_before))
FROM effect x
JOIN effect e ON e.event_id = x.event_id AND e.route_id = x.route_id AND e.item > 0
LEFT JOIN effect o ON o.id = e.duplicate_of
WHERE x.id = $1
GROUP BY e.event_id`

// ParentEffect returns the state of a claim's route in the calls that its operation follows. It must be called before
// the attempt begins, in the transaction in which the effect acts, if it has one; tx is nil otherwise.
func (e *Effects) ParentEffect(ctx context.Context, tx pgx.Tx, claim *Claim) (ParentEffect, error) {
	var db row.Querier = e.pool
	if tx != nil {
		db = tx
	}
	found, err := parentEffect(ctx, db, claim)
	if err != nil {
		return ParentEffect{}, fmt.Errorf("reading what the parent of effect %s has done: %w", claim.Effect, err)
	}
	return found, nil
}

// earlierEffect is the effect of the route in one of the calls that an operation continues.
type earlierEffect struct {
	Call   ID
	Effect *ID // nil if there is none any more, or never was
}

func parentEffect(ctx context.Context, db row.Querier, claim *Claim) (ParentEffect, error) {
	none := ParentEffect{State: ParentNone}
	rows, err := db.Query(ctx, readParentEffects, claim.Event.ID, claim.RouteID)
	if err != nil {
		return none, err
	}
	earlier, err := pgx.CollectRows(rows, pgx.RowToStructByPos[earlierEffect])
	if err != nil {
		return none, err
	}
	if len(earlier) == 0 {
		return notResumed(ctx, db, claim)
	}
	out := none
	var ids []ID
	for _, e := range earlier {
		if e.Effect == nil {
			out.State = ParentGone
		} else {
			ids = append(ids, *e.Effect)
		}
	}
	if rows, err = db.Query(ctx, lockParentEffects, ids); err != nil {
		return none, err
	}
	type standing struct {
		ID      ID
		State   EffectState
		Unknown bool
		Before  bool // an earlier version had an unknown outcome, and a person then decided to have it sent again
	}
	locked, err := pgx.CollectRows(rows, pgx.RowToStructByPos[standing])
	if err != nil {
		return none, err
	}
	if len(locked) < len(ids) {
		there, err := readIDs(ctx, db, readEffectsThere, ids)
		if err != nil {
			return none, err
		}
		missing := ParentGone // the owner of a duplicate is pruned
		if len(there) > len(locked) {
			missing = ParentOpen
		}
		out.State = worse(out.State, missing)
	}
	for _, s := range locked {
		switch {
		case s.ID == claim.Effect: // under the same effect key, the later call owns it
		case s.State == EffectDone || s.State == EffectSuperseded:
			state, err := listState(ctx, db, s.ID)
			if err != nil {
				return none, err
			}
			if state == ParentDone {
				return ParentEffect{State: ParentDone, Effect: s.ID}, nil
			}
			out.State = worse(out.State, state)
		case (s.State == EffectSkipped || s.State == EffectDead) && !s.Unknown && !s.Before:
			// Of a list, the messages that were written may have happened. The list itself has not.
			state, err := listState(ctx, db, s.ID)
			if err != nil {
				return none, err
			}
			if state == ParentOpen || state == ParentGone {
				out.State = worse(out.State, state)
			}
		case s.State == EffectSkipped, s.State == EffectDead && !s.Unknown: // it is at rest, and its outcome stays unknown
			out.State = worse(out.State, ParentGone)
		default:
			out.State = worse(out.State, ParentOpen)
		}
	}
	return out, nil
}

// notResumed is for a call that takes the place of its parent: it is carried out whole. A call with a parent always has a row
// that says how it follows it; if the row is missing, the answer is unknown.
func notResumed(ctx context.Context, db row.Querier, claim *Claim) (ParentEffect, error) {
	rows, err := db.Query(ctx, readFollowKind, claim.Event.ID)
	if err != nil {
		return ParentEffect{}, err
	}
	kinds, err := pgx.CollectRows(rows, pgx.RowTo[FollowKind])
	if err != nil || len(kinds) == 0 {
		return ParentEffect{State: ParentGone}, err
	}
	return ParentEffect{State: ParentNone}, nil
}

// listState is the state of an effect that is done, which may have become a list.
func listState(ctx context.Context, db row.Querier, effect ID) (ParentState, error) {
	rows, err := db.Query(ctx, readParentItems, effect)
	if err != nil {
		return ParentNone, err
	}
	var event ID
	var done, not, open, gone int
	lists := 0
	_, err = pgx.ForEachRow(rows, []any{&event, &done, &not, &open, &gone}, func() error { lists++; return nil })
	switch {
	case err != nil:
		return ParentNone, err
	case open > 0:
		return ParentOpen, nil
	case gone > 0: // an item is at rest, and its outcome stays unknown
		return ParentGone, nil
	case lists == 0 || not == 0:
		return ParentDone, nil
	case done > 0:
		return ParentPartial, nil
	}
	return ParentNone, nil
}

// The items of lists that the calls before have carried out. The last part of an item's key says what the item means; see [ItemKey].
const readItemsDone = `
WITH RECURSIVE line (parent) AS (
    SELECT f.parent FROM operation_follow f WHERE f.child = $1 AND f.kind = 'resumes'
    UNION
    SELECT f.parent FROM line l JOIN operation_follow f ON f.child = l.parent AND f.kind = 'resumes')
SELECT substring(e.idempotency_key FROM '[^/]*$'), coalesce(e.duplicate_of, e.id)
FROM line l
JOIN effect e ON e.event_id = l.parent AND e.route_id = $2 AND e.item > 0
LEFT JOIN effect o ON o.id = e.duplicate_of
WHERE coalesce(o.state, e.state) IN ('done', 'superseded')`

// ItemsDone are the items of a list that earlier calls have carried out, by the digest of what each means, with the effect that did it.
type ItemsDone map[string]ID

// By returns the effect that has carried out an item of that meaning; it is zero if none has.
func (d ItemsDone) By(meaning string) ID { return d[meaningDigest(meaning)] }

// ItemsDone returns the items that the calls which a claim's operation resumes have carried out for its route. It is empty for every
// other claim. Those calls are settled, and nobody can send their effects again while a later call follows them, so the answer does not
// change while the list is written.
func (e *Effects) ItemsDone(ctx context.Context, claim *Claim) (ItemsDone, error) {
	if claim.Event.Parent.IsZero() {
		return nil, nil
	}
	rows, err := e.pool.Query(ctx, readItemsDone, claim.Event.ID, claim.RouteID)
	if err != nil {
		return nil, fmt.Errorf("reading which items the parent of effect %s has done: %w", claim.Effect, err)
	}
	out := ItemsDone{}
	var digest string
	var by ID
	if _, err := pgx.ForEachRow(rows, []any{&digest, &by}, func() error { out[digest] = by; return nil }); err != nil {
		return nil, fmt.Errorf("reading which items the parent of effect %s has done: %w", claim.Effect, err)
	}
	return out, nil
}

// worse returns the state that prevents more effects from happening twice.
func worse(a, b ParentState) ParentState {
	for _, s := range []ParentState{ParentOpen, ParentGone, ParentPartial} {
		if a == s || b == s {
			return s
		}
	}
	return a
}
