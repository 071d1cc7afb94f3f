package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/halve"
)

// heldPage is how many held effects one check reads.
const heldPage = 500

// One page of held effects that do not wait for a time, without locks; and, of their streams, those in
// which nothing is claimed.
const pageHeld = `
WITH page AS MATERIALIZED (
    SELECT e.id, e.route_id, e.sequence_key_hash
    FROM effect e
    WHERE e.state = 'held' AND (e.route_id, e.id) > ($1::int, coalesce($2::uuid, '00000000-0000-0000-0000-000000000000'))
        AND e.next_at IS NULL AND e.sequence_key_hash IS NOT NULL AND e.reason IS DISTINCT FROM 'sequence_number_taken'
    ORDER BY e.route_id, e.id
    LIMIT $3),
last AS (SELECT route_id, id FROM page ORDER BY route_id DESC, id DESC LIMIT 1)
SELECT (SELECT count(*) FROM page), (SELECT route_id FROM last), (SELECT id FROM last), p.route_id, p.sequence_key_hash
FROM (SELECT DISTINCT route_id, sequence_key_hash FROM page) p
LEFT JOIN stream s ON s.route_id = p.route_id AND s.key_hash = p.sequence_key_hash
WHERE NOT EXISTS (SELECT FROM effect f WHERE f.id = s.in_flight AND f.state = 'claimed')`

// heldCursor is the last held effect that was read.
type heldCursor struct {
	routeID int32
	id      ID
}

// CheckHeld checks for a page of held effects whether they are held for a reason; it continues where the
// previous call ended. It starts an effect that is held without a reason and counts it in [OrderStats]:
// there must never be one. Before that it releases the held effects of routes that are no longer
// ordered, within freeBudget. The sweeper calls it.
func (e *Effects) CheckHeld(ctx context.Context) (found int, err error) {
	e.heldMu.Lock()
	defer e.heldMu.Unlock()
	if err = e.freeUnordered(ctx); err == nil {
		found, err = e.checkHeld(ctx)
	}
	if err != nil {
		return found, fmt.Errorf("checking held effects: %w", err)
	}
	return found, nil
}

func (e *Effects) checkHeld(ctx context.Context) (found int, err error) {
	rows, err := e.pool.Query(ctx, pageHeld, e.heldAt.routeID, e.heldAt.id, heldPage)
	if err != nil {
		return 0, err
	}
	var examined int
	var last heldCursor
	var routeID int32
	var hash []byte
	var streams []heldStream
	_, err = pgx.ForEachRow(rows, []any{&examined, &last.routeID, &last.id, &routeID, &hash}, func() error {
		if e.routes[routeID].Order.Ordered() {
			streams = append(streams, heldStream{routeID, append([]byte(nil), hash...)})
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if e.heldAt = last; examined < heldPage {
		e.heldAt = heldCursor{}
	}
	left, err := halve.Each(streams, func(part []heldStream) error {
		free, err := e.checkStreams(ctx, part)
		found += free
		return err
	})
	for _, l := range left {
		e.locked.report(ctx, e.pool, l.Item.routeID, l.Item.hash)
	}
	return found, err
}

// heldStream names a stream that is checked.
type heldStream struct {
	routeID int32
	hash    []byte
}

// checkStreams starts the effects that are held in the streams without a reason. If it returns an error,
// nothing has happened.
func (e *Effects) checkStreams(ctx context.Context, streams []heldStream) (found int, err error) {
	o := e.newOrder(nil)
	o.checking = true
	for _, s := range streams {
		o.streamFor(s.routeID, s.hash)
	}
	err = e.ownTx(ctx, func(_ *pgxpool.Conn, send func(context.Context, *pgx.Batch) error) error {
		o.send = send
		var first, lastBatch pgx.Batch
		first.Queue("BEGIN")
		o.queueLock(&first, o.streams)
		o.queueRead(&first, o.streams)
		if err := o.begin(ctx, &first, nil); err != nil {
			return err
		}
		if err := o.decide(ctx, nil, &lastBatch); err != nil {
			return err
		}
		lastBatch.Queue("COMMIT")
		return send(ctx, &lastBatch)
	})
	if err == nil {
		o.committed()
		found = o.found
		for _, s := range o.missed() {
			e.locked.report(ctx, e.pool, s.routeID, s.hash)
		}
	}
	return found, err
}

// checkTime is the time for which a check decides. It is chosen so that no patience has ended by then,
// because a check must not do what only the passing of time allows.
func (s *orderStream) checkTime() time.Time {
	switch {
	case !s.gapSince.IsZero():
		return s.gapSince
	case s.applied.IsZero():
		return s.startedAt
	}
	return s.now
}

// unfinished reports whether an effect whose job has not run yet would advance the stream: the effects
// after it are held for a reason until then.
func (s *orderStream) unfinished(plan *sequence.Plan) bool {
	for i, d := range plan.Decisions {
		if s.rows[i].state.Waiting() && d.Action != sequence.Keep && d.Action != sequence.Wait && d.Action != sequence.Run {
			return true
		}
	}
	return false
}
