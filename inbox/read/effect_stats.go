package read

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// EffectStats counts the effects of one route by state. Each count goes up to [MaxCountedEffects].
type EffectStats struct {
	// Pending are effects that have a time at which they are due: they wait for their first attempt
	// or the next one.
	Pending int

	// OldestPending is how long ago the oldest of them was recorded; 0 without one.
	OldestPending time.Duration

	// Dead and Indeterminate are effects that wait for a person.
	Dead, Indeterminate int
}

// Plus returns the stats of the effects of both.
func (s EffectStats) Plus(o EffectStats) EffectStats {
	return EffectStats{
		Pending: s.Pending + o.Pending, OldestPending: max(s.OldestPending, o.OldestPending),
		Dead: s.Dead + o.Dead, Indeterminate: s.Indeterminate + o.Indeterminate,
	}
}

// MaxCountedEffects bounds the counts of [EffectStats]. It applies to the pending effects of all
// routes together, earliest due first, and to the effects at rest of each route.
const MaxCountedEffects = 10_000

// Each part reads a partial index in its own order and no further than its bound, however large the
// table is. An effect's id begins with the time at which it was recorded, in milliseconds.
const (
	readPendingEffects = `
SELECT d.route_id, count(*), min(d.id::text)::uuid, now()
FROM (
    SELECT e.route_id, e.id
    FROM effect e
    WHERE e.next_at IS NOT NULL
    ORDER BY e.next_at, e.id
    LIMIT $1) d
GROUP BY d.route_id`

	readRestingEffects = `
SELECT r.id, d.dead, i.indeterminate
` + row.FromRestingEffects
)

// A gauge never justifies a walk over the table, even if the planner's statistics suggest one.
const readByIndex = `
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`

// CountEffects counts the effects of the routes in one read that stays short for any number of
// rows. A route without effects has zeros.
func CountEffects(ctx context.Context, pool *pgxpool.Pool, routes []int32) (map[int32]EffectStats, error) {
	out := make(map[int32]EffectStats, len(routes))
	for _, id := range routes {
		out[id] = EffectStats{}
	}
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, readByIndex); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, readRestingEffects, routes, MaxCountedEffects)
		if err != nil {
			return err
		}
		var route int32
		var s EffectStats
		if _, err = pgx.ForEachRow(rows, []any{&route, &s.Dead, &s.Indeterminate}, func() error { out[route] = s; return nil }); err != nil {
			return err
		}
		if rows, err = tx.Query(ctx, readPendingEffects, MaxCountedEffects); err != nil {
			return err
		}
		var pending int
		var oldest inbox.ID
		var now time.Time
		_, err = pgx.ForEachRow(rows, []any{&route, &pending, &oldest, &now}, func() error {
			if s, asked := out[route]; asked {
				s.Pending, s.OldestPending = pending, max(now.Sub(oldest.Time()), 0)
				out[route] = s
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("counting effects: %w", err)
	}
	return out, nil
}
