package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/locks"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// markChunk is how many effects one transaction marks.
const markChunk = 200

// A restored database may have forgotten that an unsettled effect ended. Held effects come first: as long as their
// predecessors are unsettled, the end of one wakes no other. Dead ones may have been sent again since by an operator. Effects that came
// later have jobs with higher numbers. Each part is read in the order of its index; what was marked is not in it any more.
const (
	heldToMark = `
SELECT e.id, NULL::timestamptz FROM effect e
WHERE e.route_id = $1 AND e.state = 'held' AND coalesce(e.job_id, 0) <= $2 AND $3::timestamptz IS NULL
    AND e.id > coalesce($4::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY e.route_id, e.id LIMIT $5`
	deadToMark = `
SELECT e.id, NULL::timestamptz FROM effect e
WHERE e.route_id = $1 AND e.state IN ('dead', 'indeterminate') AND e.state = 'dead' AND coalesce(e.job_id, 0) <= $2 AND $3::timestamptz IS NULL
    AND e.id > coalesce($4::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY e.route_id, e.id LIMIT $5`
	dueToMark = `
SELECT e.id, e.next_at FROM effect e
WHERE e.next_at IS NOT NULL AND (e.next_at, e.id) > (coalesce($3::timestamptz, '-infinity'), coalesce($4::uuid, '00000000-0000-0000-0000-000000000000')) AND e.route_id = ANY ($1::int[])
    AND coalesce(e.job_id, 0) <= $2
ORDER BY e.next_at, e.id LIMIT $5`
)

// A target that deduplicates may have got the effect at any time since its event came: from then on it counts for how long the target
// remembers the key.
const doubtKeys = `
UPDATE effect e
SET unknown_since = v.received_at
FROM inbox_event v
WHERE e.id = ANY ($1::uuid[]) AND v.id = e.event_id AND e.unknown_since IS NULL AND NOT e.shadow`

const (
	readRouteIDs = `SELECT id FROM route ORDER BY id`

	readClaimsToMark = `SELECT id, lease_token, lease_until, attempts FROM effect WHERE id = ANY ($1::uuid[]) AND state = 'claimed'`
)

// MarkRestored makes effects indeterminate, with the reason restored, that may have happened although the database does not know it:
// those that are not settled, whose job has at most the number given, on routes whose target cannot deduplicate or that this process
// does not know. An effect in shadow mode cannot have happened. It works over pool, a few effects in each transaction, in which marked is called, and may be called again if it
// was cut short. Nothing must be carried out before it has returned.
func (e *Effects) MarkRestored(ctx context.Context, pool *pgxpool.Pool, lastJob int64, marked func(context.Context, pgx.Tx, int) error) error {
	rows, err := pool.Query(ctx, readRouteIDs)
	if err != nil {
		return fmt.Errorf("marking effects that may have happened: %w", err)
	}
	routes, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return fmt.Errorf("marking effects that may have happened: %w", err)
	}
	var once, windowed []int32
	for _, id := range routes {
		switch route, known := e.routes[id]; {
		case !known || !route.InDatabase && !route.Idempotent:
			once = append(once, id)
		case !route.InDatabase && route.KeyWindow > 0:
			windowed = append(windowed, id)
		}
	}
	mark := func(tx pgx.Tx, ids []ID) ([]ID, error) { return e.markTx(ctx, tx, ids, marked) }
	doubt := func(tx pgx.Tx, ids []ID) ([]ID, error) { _, err := tx.Exec(ctx, doubtKeys, ids); return nil, err }
	for _, part := range []struct {
		sql    string
		routes []int32
		do     func(pgx.Tx, []ID) ([]ID, error)
	}{{heldToMark, once, mark}, {deadToMark, once, mark}, {heldToMark, windowed, doubt}, {deadToMark, windowed, doubt}} {
		for _, id := range part.routes {
			if err := markPart(ctx, pool, part.sql, id, lastJob, part.do); err != nil {
				return fmt.Errorf("marking effects that may have happened: %w", err)
			}
		}
	}
	if err := errors.Join(markPart(ctx, pool, dueToMark, once, lastJob, mark), markPart(ctx, pool, dueToMark, windowed, lastJob, doubt)); err != nil {
		return fmt.Errorf("marking effects that may have happened: %w", err)
	}
	return nil
}

// markPart walks one part of a route, or of several.
func markPart(ctx context.Context, pool *pgxpool.Pool, part string, routes any, lastJob int64, mark func(pgx.Tx, []ID) ([]ID, error)) error {
	var afterTime *time.Time
	var after ID
	for {
		var ids []ID
		rows, err := pool.Query(ctx, part, routes, lastJob, afterTime, after, markChunk)
		if err != nil {
			return err
		}
		var id ID
		var at *time.Time
		if _, err := pgx.ForEachRow(rows, []any{&id, &at}, func() error {
			ids = append(ids, id)
			after, afterTime = id, at
			return nil
		}); err != nil {
			return err
		}
		err = locks.ForEachChunk(ctx, ErrLocked, ids, markChunk, func(id ID) ID { return id }, func(chunk []ID) (missed []ID, err error) {
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
				missed, err = mark(tx, chunk)
				return err
			})
			return missed, err
		})
		if err != nil || len(ids) < markChunk {
			return err
		}
	}
}

// markTx marks effects in one transaction. missed are the effects that another transaction has locked.
func (e *Effects) markTx(ctx context.Context, tx pgx.Tx, ids []ID, marked func(context.Context, pgx.Tx, int) error) (missed []ID, err error) {
	held, missed, err := LockEffectsTx(ctx, tx, EffectLocks{Effects: ids})
	if err != nil {
		return nil, err
	}
	var group []Settlement
	claims := map[ID]int{}
	for _, id := range ids {
		h := held[id]
		if h == nil || h.Shadow || h.State.Settled() || h.State == EffectIndeterminate || slices.Contains(missed, id) {
			continue
		}
		if h.State == EffectClaimed {
			claims[id] = len(group)
		}
		group = append(group, Settlement{
			Effect: id, From: h.State, Version: h.Version, State: EffectIndeterminate, Reason: reasons.Restored, Code: "",
			RouteID: h.RouteID, SequenceKeyHash: h.SequenceKeyHash,
		})
	}
	if len(group) == 0 {
		return missed, nil
	}
	if err := readClaimed(ctx, tx, group, claims); err != nil {
		return nil, err
	}
	settled, err := e.SettleLocked(ctx, tx, group, nil)
	if err != nil {
		return nil, err
	}
	for i := range settled {
		if !settled[i].Applied {
			return nil, fmt.Errorf("%w: effect %s changed under its lock", ErrState, group[i].Effect)
		}
	}
	return missed, marked(ctx, tx, len(group))
}

// readClaimed adds the tokens of their claims to settlements of claimed effects. The workers that claimed them ran before the
// restore, and their attempts are recorded as lost.
func readClaimed(ctx context.Context, tx pgx.Tx, group []Settlement, claims map[ID]int) error {
	if len(claims) == 0 {
		return nil
	}
	ids := make([]ID, 0, len(claims))
	for id := range claims {
		ids = append(ids, id)
	}
	rows, err := tx.Query(ctx, readClaimsToMark, ids)
	if err != nil {
		return err
	}
	var id, token ID
	var until time.Time
	var attempts int
	_, err = pgx.ForEachRow(rows, []any{&id, &token, &until, &attempts}, func() error {
		s := &group[claims[id]]
		s.Token, s.Attempt, s.Outcome, s.Failure, s.Trigger, s.StartedAt = token, attempts, AttemptLost, reasons.Restored, TriggerInitial, until
		if attempts > 1 {
			s.Trigger = TriggerAutomatic
		}
		return nil
	})
	return err
}
