package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ParentState says what became of a route in the calls that an operation follows.
type ParentState string

// What became of a route in an earlier call.
const (
	// ParentNone: no earlier call has done it, or may have done it.
	ParentNone ParentState = "none"
	// ParentDone: an earlier call has done it.
	ParentDone ParentState = "done"
	// ParentPartial: an earlier call has done some of the items of its list.
	ParentPartial ParentState = "partial"
	// ParentOpen: it is not known yet, or may have happened: a person, a probe or a replay is at it.
	ParentOpen ParentState = "open"
)

// ParentEffect is the effect of a route in the calls that an operation follows.
type ParentEffect struct {
	State ParentState

	// Effect is the one that has happened.
	Effect ID
}

// The calls before it are followed by their parents, the nearest first, as far as they are the same
// operation, and 16 of them. Effects that were duplicates stand for their owners.
const readParentEffects = `
WITH RECURSIVE line (id, type, parent, depth) AS (
    SELECT v.id, v.type, v.parent, 0 FROM inbox_event v WHERE v.id = $1
    UNION ALL
    SELECT p.id, p.type, p.parent, l.depth + 1
    FROM line l
    JOIN inbox_event p ON p.id = l.parent
    WHERE p.type = l.type AND l.depth < 16)
SELECT DISTINCT coalesce(e.duplicate_of, e.id)
FROM line l
JOIN effect e ON e.event_id = l.id AND e.route_id = $2 AND e.item = 0
WHERE l.depth > 0`

// The share lock has a replay that is about to begin seen: it holds the row, and one that begins later
// sees the call that asks here. A row that somebody holds is not waited for: its reader may
// hold locks that come after it.
const lockParentEffects = `
SELECT e.id, e.state, e.unknown_since IS NOT NULL OR e.unknown_before
FROM effect e
WHERE e.id = ANY ($1::uuid[])
ORDER BY e.id
FOR SHARE OF e SKIP LOCKED`

const readParentItems = `
SELECT e.event_id,
    count(*) FILTER (WHERE coalesce(o.state, e.state) IN ('done', 'superseded')),
    count(*) FILTER (WHERE coalesce(o.state, e.state) NOT IN ('done', 'superseded', 'skipped')),
    count(*) FILTER (WHERE coalesce(o.state, e.state) IN ('pending', 'claimed', 'retry', 'held', 'indeterminate')
        OR coalesce(o.state, e.state) = 'dead' AND coalesce(o.unknown_since, e.unknown_since) IS NOT NULL)
FROM effect x
JOIN effect e ON e.event_id = x.event_id AND e.route_id = x.route_id AND e.item > 0
LEFT JOIN effect o ON o.id = e.duplicate_of
WHERE x.id = $1
GROUP BY e.event_id`

// ParentEffect tells what became of a claim's route in the calls that its operation follows. It must
// be asked before the attempt begins, in the transaction in which the effect acts, if it has one; tx
// is nil otherwise.
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

func parentEffect(ctx context.Context, db row.Querier, claim *Claim) (ParentEffect, error) {
	none := ParentEffect{State: ParentNone}
	rows, err := db.Query(ctx, readParentEffects, claim.Event.ID, claim.RouteID)
	if err != nil {
		return none, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[ID])
	if err != nil || len(ids) == 0 {
		return none, err
	}
	if rows, err = db.Query(ctx, lockParentEffects, ids); err != nil {
		return none, err
	}
	type standing struct {
		ID      ID
		State   EffectState
		Unknown bool
	}
	locked, err := pgx.CollectRows(rows, pgx.RowToStructByPos[standing])
	if err != nil {
		return none, err
	}
	out := none
	if len(locked) < len(ids) {
		out.State = ParentOpen
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
		case s.State == EffectSkipped, s.State == EffectDead && !s.Unknown:
		default:
			out.State = worse(out.State, ParentOpen)
		}
	}
	return out, nil
}

// listState is what became of an effect that is done: it may have become a list.
func listState(ctx context.Context, db row.Querier, effect ID) (ParentState, error) {
	rows, err := db.Query(ctx, readParentItems, effect)
	if err != nil {
		return ParentNone, err
	}
	var event ID
	var done, not, open int
	lists := 0
	_, err = pgx.ForEachRow(rows, []any{&event, &done, &not, &open}, func() error { lists++; return nil })
	switch {
	case err != nil:
		return ParentNone, err
	case lists == 0 || not == 0:
		return ParentDone, nil
	case open > 0:
		return ParentOpen, nil
	case done > 0:
		return ParentPartial, nil
	}
	return ParentNone, nil
}

// worse is the state that keeps more from happening twice.
func worse(a, b ParentState) ParentState {
	for _, s := range []ParentState{ParentOpen, ParentPartial} {
		if a == s || b == s {
			return s
		}
	}
	return a
}
