package prune

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// restChunk is how many effects at rest one transaction settles, because it keeps the
// locks of their streams.
const restChunk = 100

// The rows that an operator named, past their horizon counted from admission, the
// oldest of each route first. A settled effect leaves the index, so there is no cursor.
const (
	findDueAtRest = `
SELECT f.id, f.event_id, f.state, f.route_id, f.version, f.sequence_key_hash
FROM unnest($1::int[], $2::uuid[]) AS r (id, cutoff)
CROSS JOIN LATERAL (
    SELECT e.id, e.event_id, e.state, e.route_id, e.version, e.sequence_key_hash
    FROM effect e
    WHERE e.route_id = r.id AND e.id < r.cutoff AND e.state IN ('dead', 'indeterminate') AND e.state = ANY ($3::text[])
        AND NOT EXISTS (
            SELECT FROM replay_item i JOIN replay plan ON plan.id = i.replay_id
            WHERE NOT $4::boolean AND i.effect_id = e.id AND ` + row.OpenItem + `)
    ORDER BY e.id
    LIMIT $5) f
LIMIT $5`

	findDueHeld = `
SELECT f.id, f.event_id, f.state, f.route_id, f.version, f.sequence_key_hash
FROM unnest($1::int[], $2::uuid[]) AS r (id, cutoff)
CROSS JOIN LATERAL (
    SELECT e.id, e.event_id, e.state, e.route_id, e.version, e.sequence_key_hash
    FROM effect e
    WHERE e.route_id = r.id AND e.id < r.cutoff AND e.state = 'held'
        AND NOT EXISTS (
            SELECT FROM replay_item i JOIN replay plan ON plan.id = i.replay_id
            WHERE NOT $3::boolean AND i.effect_id = e.id AND ` + row.OpenItem + `)
    ORDER BY e.id
    LIMIT $4) f
LIMIT $4`
)

// settleIncluded settles the effects that an operator named as skipped. It does so
// through settle, like every other way out of a state at rest, so that their streams
// proceed. The walk over effects then removes them.
func (s *pass) settleIncluded(ctx context.Context) error {
	states, replay := s.run.states(), s.run.includes(Replay)
	routes, cutoffs := s.retention.routeCutoffs()
	if s.run.includes(Dead) || s.run.includes(Indeterminate) {
		if err := s.settleAll(ctx, findDueAtRest, routes, cutoffs, states, replay, restChunk); err != nil {
			return err
		}
	}
	if s.run.includes(Held) {
		return s.settleAll(ctx, findDueHeld, routes, cutoffs, replay, restChunk)
	}
	return nil
}

// states returns the states of effects that the run includes.
func (r *Run) states() []string {
	out := []string{}
	for _, name := range r.Include {
		if name != Replay {
			out = append(out, string(name)) // they are named as their states are
		}
	}
	return out
}

// settleAll settles what the query finds until it finds nothing, or nothing that
// can be settled now.
func (s *pass) settleAll(ctx context.Context, query string, args ...any) error {
	for {
		if s.timeIsUp(ctx) {
			return errTimeIsUp
		}
		settled := 0
		err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) (err error) {
			settled, err = s.settleChunk(ctx, tx, query, args...)
			return err
		})
		if ctx.Err() != nil {
			return errTimeIsUp
		}
		if err != nil {
			return fmt.Errorf("settling what is pruned: %w", err)
		}
		if settled == 0 {
			return nil
		}
		s.report.Batches++
	}
}

func (s *pass) settleChunk(ctx context.Context, tx pgx.Tx, query string, args ...any) (settled int, err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	var (
		group  []inbox.Settlement
		events []inbox.ID
		one    = inbox.Settlement{State: inbox.EffectSkipped, Reason: reasons.Pruned}
	)
	_, err = pgx.ForEachRow(rows, []any{&one.Effect, &one.Event, &one.From, &one.RouteID, &one.Version, &one.SequenceKeyHash}, func() error {
		group, events = append(group, one), append(events, one.Event)
		return nil
	})
	if err != nil || len(group) == 0 {
		return 0, err
	}
	// Events come first in the order of locks. This is an operator's act, and is on
	// disk before it is reported.
	if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = on`); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, row.LockOperations, events); err != nil {
		return 0, err
	}
	ends, err := s.cfg.Effects.SettleLocked(ctx, tx, group, nil)
	if err != nil {
		return 0, err
	}
	for _, end := range ends {
		if end.Applied {
			settled++
		}
	}
	return settled, nil
}
