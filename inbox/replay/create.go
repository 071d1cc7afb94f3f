package replay

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// The caller has locked the events. A call that a later call follows gets no more effects, because the later call does the work.
var readNewEvents = `
SELECT v.id, coalesce(s.key_name, s.name), v.event_id, r.id, coalesce(r.key_name, r.name), r.version,
    EXISTS (SELECT FROM inbox_body b WHERE b.id = v.body_id AND b.class = v.class) OR ` + row.Archived + `, v.discarded_at IS NOT NULL,
    v.class = 'erased' OR EXISTS (SELECT FROM conflict c WHERE c.event_id = v.id AND c.admitted_at >= $3)
        OR EXISTS (SELECT FROM operation_follow f WHERE f.parent = v.id), now()
FROM unnest($1::uuid[], $2::int[]) AS a (event_id, route_id)
JOIN inbox_event v ON v.id = a.event_id
JOIN source s ON s.id = v.source_id
JOIN route r ON r.id = a.route_id
ORDER BY v.id`

// The unique constraint decides which transaction creates the effect. An effect that was moved to another route has kept its
// key, perhaps with a later version, or together with a key that is made of a recipe. A second effect under the event's key
// would send again. The effect of an event that was recorded in shadow mode is in shadow mode too. The caller has locked the event, as a
// move of its effects does, so that no effect moves in the meantime.
const insertNewEffect = `
INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, job_id, state, next_at, fresh_trigger, shadow)
SELECT $1, $2, $3, $4, $5::text, $6, 'pending', now(), 'replay', (SELECT v.shadow FROM inbox_event v WHERE v.id = $2)
WHERE NOT EXISTS (
    SELECT FROM effect x
    WHERE x.event_id = $2 AND (x.idempotency_key = $5::text OR starts_with(x.idempotency_key, $5::text || '~v') OR x.event_key = $5::text))
ON CONFLICT ON CONSTRAINT effect_event_route_item_key DO NOTHING
RETURNING id`

// createTx creates the effects of routes that did not take the events when they arrived.
func (r *Store) createTx(ctx context.Context, tx pgx.Tx, replay *Replay, items []*stepItem) error {
	if len(items) == 0 {
		return nil
	}
	type place struct {
		event inbox.ID
		route int32
	}
	wanted := map[place]*stepItem{}
	var events []inbox.ID
	var routes []int32
	for _, it := range items {
		// The route was not ordered when the replay was planned. An effect created now would have no place in its sequence,
		// and would overtake those with one.
		if route, _ := r.store.Route(it.route); route.Order.Ordered() {
			it.outcome, it.detail = ItemLeftOut, "its route is ordered now"
			continue
		}
		it.outcome = ItemGone
		wanted[place{it.event, it.route}] = it
		events, routes = append(events, it.event), append(routes, it.route)
	}
	if len(wanted) == 0 {
		return nil
	}
	type newEffect struct {
		place
		id      inbox.ID
		key     string
		version int32
	}
	rows, err := tx.Query(ctx, readNewEvents, events, routes, replay.CreatedAt)
	if err != nil {
		return err
	}
	var (
		e                      newEffect
		source, eventID, route string
		kept, discarded, other bool
		now                    time.Time
		news                   []newEffect
		decided                []*stepItem
	)
	_, err = pgx.ForEachRow(rows, []any{&e.event, &source, &eventID, &e.route, &route, &e.version, &kept, &discarded, &other, &now}, func() error {
		it := wanted[e.place]
		if other || discarded && it.reason != reasons.Discarded {
			it.outcome, it.detail = ItemChanged, "its event is no longer as it was planned"
			decided = append(decided, it)
			return nil
		}
		if !kept {
			it.outcome = ItemBodyGone
			return nil
		}
		e.id, e.key = inbox.NewID(now), inbox.IdempotencyKey(source, eventID, route)
		news = append(news, e)
		return nil
	})
	if err != nil {
		return err
	}
	jobIDs, err := r.reserveAndReadDecisionsTx(ctx, tx, replay, len(news), decided)
	if err != nil || len(news) == 0 {
		return err
	}
	var b pgx.Batch
	var wakes []inbox.Wake
	for i, n := range news {
		it := wanted[n.place]
		b.Queue(insertNewEffect, n.id, n.event, n.route, n.version, n.key, jobIDs[i]).QueryRow(func(row pgx.Row) error {
			var id inbox.ID
			err := row.Scan(&id)
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				it.outcome = ItemExists
			case err == nil:
				it.outcome, it.effect = ItemCreated, id
				wakes = append(wakes, inbox.Wake{JobID: jobIDs[i], Kind: inbox.WakeEffect, ID: id, Last: true})
			}
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
	}
	events = events[:0]
	for _, n := range news {
		events = append(events, n.event)
	}
	b.Queue(row.ForgetResults, events, []inbox.ID{}) // a result that says that no route took the call is no longer true
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if len(wakes) == 0 {
		return nil
	}
	var wake pgx.Batch
	r.store.Enqueuer().EnqueueTx(&wake, wakes)
	return tx.SendBatch(ctx, &wake).Close()
}
