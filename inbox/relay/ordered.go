package relay

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/advisory"
)

// Most passes find nothing: one statement for all sources.
const orderedSources = `
SELECT k.name FROM unnest($1::text[]) AS k (name)
WHERE EXISTS (SELECT FROM outbox o WHERE o.source = k.name AND o.ordered AND o.refused_at IS NULL)`

const tryRelayLock = `SELECT pg_try_advisory_xact_lock($1::int, hashtext(coalesce(current_schema(), '') || '/' || $2))`

// In the order of commits. No row is skipped: whoever is behind it must wait.
const takeOrdered = `
WITH taken AS MATERIALIZED (
    SELECT id, position, octet_length(payload) AS bytes
    FROM outbox
    WHERE source = $1 AND ordered AND refused_at IS NULL
    ORDER BY position, id
    LIMIT $2),
sized AS (
    SELECT id, position, bytes, sum(bytes) OVER (ORDER BY position, id) - bytes AS before FROM taken)
SELECT o.id, o.source, o.event_id, o.type, CASE WHEN s.bytes <= $4 THEN o.payload END, s.bytes, o.created_at
FROM sized s JOIN outbox o ON o.id = s.id
WHERE s.before = 0 OR s.before + s.bytes <= $3
ORDER BY s.position, s.id`

// The time at which a batch arrives: later than all that was given to the source
// before, by whichever relay, also if a clock was set back. It is committed before it
// is used, so that a relay which dies leaves no time that is given twice.
const takeArrival = `
UPDATE source SET emitted_at = greatest(clock_timestamp(), emitted_at + interval '1 microsecond') WHERE coalesce(key_name, name) = $1
RETURNING emitted_at`

// runOrdered relays what is to keep the order of its commits: by one relay at a time
// for each source, as deliveries of many events, whose order in their delivery is
// that of their arrival. What the gate does not take holds up its source.
func (r *Relay) runOrdered(ctx context.Context) (total int, err error) {
	rows, err := r.cfg.Pool.Query(ctx, orderedSources, r.names)
	if err != nil {
		return 0, err
	}
	sources, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, source := range sources {
		for {
			deleted, more, err := r.orderedBatch(ctx, source)
			total += deleted
			if err != nil {
				errs = append(errs, err)
			}
			if err != nil || !more {
				break
			}
		}
	}
	return total, errors.Join(errs...)
}

func (r *Relay) orderedBatch(ctx context.Context, source string) (deleted int, more bool, err error) {
	err = pgx.BeginFunc(ctx, r.cfg.Pool, func(tx pgx.Tx) error {
		var obtained bool
		if err := tx.QueryRow(ctx, tryRelayLock, advisory.Relay, source).Scan(&obtained); err != nil || !obtained {
			return err
		}
		rows, err := tx.Query(ctx, takeOrdered, source, r.cfg.Batch, r.cfg.Bytes, maxPayload)
		if err != nil {
			return err
		}
		taken, err := pgx.CollectRows(rows, pgx.RowToStructByPos[outboxRow])
		if err != nil || len(taken) == 0 {
			return err
		}
		if taken, err = r.refuseTx(ctx, tx, taken); err != nil {
			return err
		}
		more = true
		if len(taken) == 0 {
			return nil
		}
		var at time.Time
		if err := r.cfg.Pool.QueryRow(ctx, takeArrival, source).Scan(&at); err != nil {
			return err
		}
		receipt, err := r.cfg.Gate.Accept(ctx, r.admission(taken, at))
		if err == nil && len(receipt.Items) != len(taken) {
			err = errors.New("the gate did not answer for every event")
		}
		if err != nil {
			r.failed.Add(uint64(len(taken)))
			r.logLeft(ctx, len(taken), err)
			more = false
			return nil // what was refused stays refused
		}
		ids := make([]int64, len(taken))
		for i := range taken {
			ids[i] = taken[i].ID
			r.count(ctx, &taken[i], &receipt.Items[i])
		}
		if _, err := tx.Exec(ctx, deleteOutbox, ids); err != nil {
			return err
		}
		deleted = len(ids)
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	return deleted, more, nil
}
