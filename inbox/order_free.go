package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// How many effects one transaction releases, and how long one sweep spends on
// releasing.
const (
	freeChunk  = 500
	freeBudget = 5 * time.Second
)

// Of the given routes those with a held effect. Without it a sweep asked for each route by itself, which took 10,000
// transactions with 10,000 sources.
const holdingRoutes = `
SELECT r.id FROM unnest($1::int[]) AS r (id)
WHERE EXISTS (SELECT FROM effect e WHERE e.route_id = r.id AND e.state = 'held')
ORDER BY r.id`

// The held effects of a route that is no longer ordered, held for any reason.
const pageFree = `
SELECT e.id
FROM effect e
WHERE e.route_id = $1 AND e.state = 'held' AND e.id > coalesce($2::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY e.id
LIMIT $3
FOR UPDATE OF e SKIP LOCKED`

const freeEffects = `
UPDATE effect e
SET state = 'pending', next_at = now(), reason = NULL, job_id = a.job_id
FROM unnest($1::uuid[], $2::bigint[]) AS a (id, job_id)
WHERE e.id = a.id AND e.state = 'held'`

// freeUnordered releases the held effects of routes that are no longer ordered, a chunk
// in each transaction, within a budget. It locks no stream, because the effects of
// these routes no longer wait for each other.
func (e *Effects) freeUnordered(ctx context.Context) error {
	if len(e.unordered) == 0 {
		return nil
	}
	began := e.now()
	rows, err := e.pool.Query(ctx, holdingRoutes, e.unordered)
	if err != nil {
		return fmt.Errorf("reading which unordered routes hold effects: %w", err)
	}
	holding, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return fmt.Errorf("reading which unordered routes hold effects: %w", err)
	}
	for _, route := range holding {
		for last := (ID{}); e.now().Sub(began) < freeBudget; {
			var n int
			err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) (err error) {
				n, last, err = e.freeChunkTx(ctx, tx, route, last)
				return err
			})
			if err != nil {
				return fmt.Errorf("setting free what route %d held: %w", route, err)
			}
			if n < freeChunk {
				break
			}
		}
	}
	return nil
}

func (e *Effects) freeChunkTx(ctx context.Context, tx pgx.Tx, route int32, after ID) (n int, last ID, err error) {
	rows, err := tx.Query(ctx, pageFree, route, after, freeChunk)
	if err != nil {
		return 0, after, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[ID])
	if err != nil || len(ids) == 0 {
		return 0, after, err
	}
	wakes, err := e.ReserveWakes(ctx, sendTo(tx), ids)
	if err != nil {
		return 0, after, err
	}
	var b pgx.Batch
	b.Queue(freeEffects, ids, JobsOf(wakes))
	e.enqueuer.EnqueueTx(&b, wakes)
	return len(ids), ids[len(ids)-1], tx.SendBatch(ctx, &b).Close()
}

// unorderedRoutes returns the ids of the routes that are not ordered.
func unorderedRoutes(routes map[int32]EffectRoute) (ids []int32) {
	for id, r := range routes {
		if !r.Order.Ordered() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
