package inbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Workers take the oldest wake-up first, so the time of a wake-up is its place in the
// queue. An effect keeps the place of its event, no matter when and by which caller it
// is woken. The exceptions are a retry, which has the place of its due time, and an
// effect that got new attempts, which has the place of that decision. A replayed effect
// comes after new deliveries.
const readQueuePlaces = `
SELECT e.id,
    coalesce(greatest((extract(epoch FROM now() - CASE
        WHEN e.state = 'retry' OR e.state = 'pending' AND e.next_at > now() THEN e.next_at
        ELSE greatest(v.received_at, e.rearmed_at) END) * 1000000)::bigint, 0), 0),
    e.fresh_trigger IS NOT DISTINCT FROM 'replay'
FROM effect e
LEFT JOIN inbox_event v ON v.id = e.event_id
WHERE e.id = ANY ($1::uuid[])`

// ReserveWakes reserves a job for each effect, and makes the wake-ups that the caller
// will insert, in one round trip. Each has the effect's place in the queue.
func (e *Effects) ReserveWakes(ctx context.Context, send func(context.Context, *pgx.Batch) error, ids []ID) ([]Wake, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var jobIDs []int64
	var b pgx.Batch
	e.enqueuer.ReserveTx(&b, len(ids), &jobIDs)
	places := make(map[ID]Wake, len(ids))
	b.Queue(readQueuePlaces, ids).Query(func(rows pgx.Rows) error {
		var id ID
		var age int64
		var last bool
		_, err := pgx.ForEachRow(rows, []any{&id, &age, &last}, func() error {
			places[id] = Wake{Last: last, In: -time.Duration(age) * time.Microsecond}
			return nil
		})
		return err
	})
	if err := send(ctx, &b); err != nil {
		return nil, err
	}
	wakes := make([]Wake, len(ids))
	for i, id := range ids {
		wakes[i] = places[id]
		wakes[i].JobID, wakes[i].Kind, wakes[i].ID = jobIDs[i], WakeEffect, id
	}
	return wakes, nil
}

// JobsOf returns the jobs of wake-ups.
func JobsOf(wakes []Wake) []int64 {
	ids := make([]int64, len(wakes))
	for i, w := range wakes {
		ids[i] = w.JobID
	}
	return ids
}

// sendTo returns a function that sends batches in the caller's transaction.
func sendTo(db row.Batcher) func(context.Context, *pgx.Batch) error {
	return func(ctx context.Context, b *pgx.Batch) error { return db.SendBatch(ctx, b).Close() }
}
