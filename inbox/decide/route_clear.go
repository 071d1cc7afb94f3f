package decide

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/locks"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ClearRoute is a decision about all effects that wait for a route that is gone.
type ClearRoute struct {
	Source, Route string

	// To is the route of the same source that they move to; empty discards them.
	To string

	// Seen limits the decision to the effects that a dry run showed the operator, in the revision that it showed. If
	// Seen is nil, ClearRoute searches for them.
	Seen []Seen

	// Max bounds how many there may be; more are an error, and nothing is done. 0 is
	// the default of 1,000, and 100,000 is the most.
	Max int

	// DryRun counts them and changes nothing.
	DryRun bool

	// Actor and Reason go into the audit entry of each. Both are required, but for a
	// dry run.
	Actor, Reason string

	// Progress, if set, is called after each transaction with how many are done.
	Progress func(done, of int)
}

// ClearedRoute is the result of a [ClearRoute].
type ClearedRoute struct {
	// Matched is how many effects wait.
	Matched int `json:"matched"`
	// Cleared is how many of them moved or are skipped now.
	Cleared int `json:"cleared"`
	// Left is how many stay: they changed meanwhile or, with To, cannot move without the risk that they happen twice or
	// out of order.
	Left int `json:"left"`
	// Seen are those that wait.
	Seen []Seen `json:"-"`
}

const findGoneRoute = `
SELECT r.id, r.version, r.target, ` + row.GoneRoute + `
FROM route r
JOIN source s ON s.id = r.source_id
WHERE s.name = $1 AND r.name = $2`

const findWaiting = `
SELECT e.id, e.revision FROM effect e WHERE e.next_at IS NOT NULL AND e.route_id = $1 AND e.state IN ('pending', 'retry', 'held')
UNION
SELECT e.id, e.revision FROM effect e WHERE e.route_id = $1 AND e.state = 'held'
ORDER BY id
LIMIT $2`

// ClearRoute discards the effects that wait for a route that is gone, or moves them to another route of the same
// source, a few effects in each transaction. If a call is interrupted, make it again. It returns [inbox.ErrNotFound] for a
// route that never existed, [inbox.ErrRouteKnown] for one that servers carry out, [inbox.ErrRouteGone] if To is gone too, and
// [ErrBound].
//
// An effect that moves keeps its idempotency key: if both routes lead to the same target, the target recognises an
// effect that it may have received. Only effects that certainly never happened move to another target, because no key
// would help there, and they are rendered again. The items of a list and the effects of an ordered route do not move to
// another target, because they have their place where they are.
func (e *Decider) ClearRoute(ctx context.Context, c ClearRoute) (ClearedRoute, error) {
	out, err := e.clearRoute(ctx, c)
	if err != nil {
		return out, fmt.Errorf("clearing route %s/%s: %w", c.Source, c.Route, err)
	}
	return out, nil
}

// clearing is a route that is being cleared, and the route to which its effects move.
type clearing struct {
	ask        ClearRoute
	from, to   int32
	version    int32
	sameTarget bool
}

func (e *Decider) clearRoute(ctx context.Context, c ClearRoute) (out ClearedRoute, err error) {
	if !c.DryRun {
		if err := inbox.CheckExplanation(c.Actor, c.Reason); err != nil {
			return out, err
		}
	}
	if c.Max == 0 {
		c.Max = DefaultDiscards
	}
	c.Max = min(c.Max, MaxDiscards)
	all, err := e.findClearing(ctx, c)
	if err != nil {
		return out, err
	}
	out.Seen = c.Seen
	if out.Seen == nil {
		if out.Seen, err = e.findWaiting(ctx, all.from, c.Max+1); err != nil {
			return out, err
		}
	}
	if out.Matched = len(out.Seen); out.Matched > c.Max {
		return out, fmt.Errorf("%w: at most %d", ErrBound, c.Max)
	}
	if c.DryRun {
		return out, nil
	}
	err = locks.ForEachChunk(ctx, inbox.ErrLocked, out.Seen, discardChunk, func(s Seen) inbox.ID { return s.ID }, func(chunk []Seen) (missed []inbox.ID, err error) {
		var n int
		err = pgx.BeginFunc(ctx, e.store.Pool(), func(tx pgx.Tx) (err error) {
			if c.To == "" {
				n, missed, err = e.discardTx(ctx, tx, chunk, c.Actor, c.Reason, func(s inbox.EffectState) bool {
					return s.Waiting() || s == inbox.EffectHeld
				})
			} else {
				n, missed, err = e.moveTx(ctx, tx, all, chunk)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		out.Cleared += n
		out.Left += len(chunk) - n - len(missed)
		if c.Progress != nil {
			c.Progress(out.Cleared+out.Left, out.Matched)
		}
		return missed, nil
	})
	return out, err
}

func (e *Decider) findWaiting(ctx context.Context, route int32, limit int) ([]Seen, error) {
	rows, err := e.store.Pool().Query(ctx, findWaiting, route, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Seen, err error) {
		err = row.Scan(&s.ID, &s.Revision)
		return s, err
	})
}

func (e *Decider) findClearing(ctx context.Context, c ClearRoute) (clearing, error) {
	out := clearing{ask: c}
	var target, toTarget string
	var version int32
	var gone bool
	err := e.store.Pool().QueryRow(ctx, findGoneRoute, c.Source, c.Route).Scan(&out.from, &version, &target, &gone)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return out, inbox.ErrNotFound
	case err == nil && !gone:
		err = inbox.ErrRouteKnown
	}
	if err != nil || c.To == "" {
		return out, err
	}
	err = e.store.Pool().QueryRow(ctx, findGoneRoute, c.Source, c.To).Scan(&out.to, &out.version, &toTarget, &gone)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return out, fmt.Errorf("%w: the source has no route %s", inbox.ErrNotFound, c.To)
	case err == nil && gone:
		err = fmt.Errorf("%w: %s", inbox.ErrRouteGone, c.To)
	}
	out.sameTarget = target == toTarget
	return out, err
}

// A moved effect gets new attempts under a new version, and its key by recipe, if it has one, is that of the other
// route. To the same target the rendered bytes move together with the key.
const moveToRoute = `
UPDATE effect o
SET route_id = $3, route_version = $4, state = 'pending', next_at = now(), job_id = a.job_id, reason = NULL, attempts = 0,
    version = o.version + 1, revision = o.revision + 1, fresh_trigger = 'manual', rearmed_at = now(), unfinished = false, key_hash = NULL,
    rendered = CASE WHEN $5 THEN o.rendered END, rendered_key_id = CASE WHEN $5 THEN o.rendered_key_id END,
    fetched = CASE WHEN $5 THEN o.fetched END, fetched_key_id = CASE WHEN $5 THEN o.fetched_key_id END
FROM unnest($1::uuid[], $2::bigint[]) AS a (id, job_id)
WHERE o.id = a.id AND o.route_id = $6 AND o.state IN ('pending', 'retry') AND o.sequence_key_hash IS NULL
    AND NOT EXISTS (SELECT FROM effect x WHERE x.event_id = o.event_id AND x.route_id = $3 AND x.item = o.item)
    AND ($5 OR o.item = 0 AND ` + row.NoneHappened + `)
RETURNING o.id`

// The keys of effects that may have happened move along, because the first event of the key on the other route would repeat
// them. If another effect on the other route has the key, that key stays.
const (
	moveKeys = `
UPDATE effect_key k
SET route_id = $2
FROM effect o
WHERE k.effect_id = ANY ($1::uuid[]) AND o.id = k.effect_id AND NOT (` + row.NoneHappened + `)
    AND NOT EXISTS (SELECT FROM effect_key x WHERE x.route_id = $2 AND x.key_hash = k.key_hash)`

	releaseMoved = `DELETE FROM effect_key WHERE effect_id = ANY ($1::uuid[]) AND route_id = $2`
)

func (e *Decider) moveTx(ctx context.Context, tx pgx.Tx, c clearing, all []Seen) (n int, missed []inbox.ID, err error) {
	held, missed, err := inbox.LockEffectsTx(ctx, tx, inbox.EffectLocks{Effects: seenIDs(all)})
	if err != nil {
		return 0, nil, err
	}
	var ids []inbox.ID
	for _, seen := range all {
		if h := held[seen.ID]; h != nil && h.Revision == seen.Revision {
			ids = append(ids, seen.ID)
		}
	}
	jobIDs, err := e.store.ReserveTx(ctx, tx, len(ids))
	if err != nil {
		return 0, nil, err
	}
	rows, err := tx.Query(ctx, moveToRoute, ids, jobIDs, c.to, c.version, c.sameTarget, c.from)
	if err != nil {
		return 0, nil, err
	}
	moved, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
	if err != nil {
		return 0, nil, err
	}
	if len(moved) == 0 {
		return 0, missed, nil
	}
	var b pgx.Batch
	b.Queue(moveKeys, moved, c.to)
	b.Queue(releaseMoved, moved, c.from)
	wakes := make([]inbox.Wake, len(moved))
	for i, id := range moved {
		h := held[id]
		wakes[i] = inbox.Wake{JobID: jobIDs[slices.Index(ids, id)], Kind: inbox.WakeEffect, ID: id, Last: true}
		a := inbox.AuditEntry{
			At: h.Now, Actor: c.ask.Actor, Action: inbox.AuditMove, Object: "effect/" + id.String(), Reason: c.ask.Reason,
			Before: map[string]any{"route": c.ask.Route, "effect": h.Snapshot()},
			After:  map[string]any{"route": c.ask.To, "effect": inbox.EffectSnapshot{State: inbox.EffectPending, Version: h.Version + 1, Revision: h.Revision + 1}},
		}
		if err := a.Queue(&b); err != nil {
			return 0, nil, err
		}
	}
	e.store.Enqueuer().InsertTx(&b, wakes)
	return len(moved), missed, tx.SendBatch(ctx, &b).Close()
}
