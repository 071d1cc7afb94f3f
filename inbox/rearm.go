package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// Read without locks, because each effect is checked again under its own lock. A
// duplicate's owner acts for it.
const deadEffects = `
SELECT id FROM effect WHERE event_id = $1 AND state = 'dead'
UNION
SELECT o.id
FROM effect f
JOIN effect o ON o.id = f.duplicate_of AND o.state = 'dead'
WHERE f.event_id = $1 AND f.state = 'duplicate'
ORDER BY id`

// Rearm gives the dead effects of an event new attempts, because its provider delivered it
// again: those whose reason is retriable, at most as often as the route allows and once a
// minute, and none of an operation that a later call repeats. It returns how many effects
// it rearmed.
func (e *Effects) Rearm(ctx context.Context, event ID) (int, error) {
	rows, err := e.pool.Query(ctx, deadEffects, event)
	if err != nil {
		return 0, fmt.Errorf("rearming event %s: %w", event, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[ID])
	if err != nil {
		return 0, fmt.Errorf("rearming event %s: %w", event, err)
	}
	rearmed := 0
	for _, id := range ids {
		ok, err := e.rearm(ctx, id)
		if err != nil {
			return rearmed, fmt.Errorf("rearming effect %s: %w", id, err)
		}
		if ok {
			rearmed++
		}
	}
	return rearmed, nil
}

const lockEffectStream = `
SELECT s.id
FROM stream s
JOIN effect e ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash
WHERE e.id = $1
FOR UPDATE OF s`

// rearmPatience is how long new attempts wait for the locks they need.
const rearmPatience = time.Second

const lockDead = `
SELECT x.route_id, x.version, x.rearms, coalesce(x.reason, ''), x.sequence_key_hash,
    x.rearmed_at IS NULL OR x.rearmed_at <= now() - $2::bigint * interval '1 microsecond',
    coalesce((extract(epoch FROM now() - x.unknown_since) * 1000000)::bigint, -1), ` + row.CalledAgain + `
FROM effect x
WHERE x.id = $1 AND x.state = 'dead'
FOR UPDATE OF x`

func (e *Effects) rearm(ctx context.Context, id ID) (done bool, err error) {
	err = pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		// Each waits for nothing but its own stream and row, and not for long: the wake-up
		// is made again.
		if _, err := tx.Exec(ctx, boundLockWait, fmt.Sprintf("%dms", rearmPatience.Milliseconds())); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, lockEffectStream, id); err != nil {
			return err
		}
		s := Settlement{Effect: id, From: EffectDead, State: EffectPending, Rearm: true, Trigger: TriggerRearm}
		var rearms int
		var rested, again bool
		var unknownFor int64
		err := tx.QueryRow(ctx, lockDead, id, RearmInterval.Microseconds()).
			Scan(&s.RouteID, &s.Version, &rearms, &s.Reason, &s.SequenceKeyHash, &rested, &unknownFor, &again)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		route, known := e.routes[s.RouteID]
		if !known || !rested || rearms >= route.Rearms || !s.Reason.Retriable() || again {
			return nil
		}
		if unknownFor >= 0 && route.KeyWindow > 0 && unknownFor >= route.KeyWindow.Microseconds() {
			// It may have happened, and the target would not know it again.
			s.State, s.Rearm, s.Reason = EffectIndeterminate, false, reasons.KeyWindow
			_, err := e.SettleLocked(ctx, tx, []Settlement{s}, nil)
			return err
		}
		s.Reason = ""
		jobIDs, err := e.ReserveTx(ctx, tx, 1)
		if err != nil {
			return err
		}
		s.JobID = jobIDs[0]
		out, err := e.SettleLocked(ctx, tx, []Settlement{s}, []Wake{{JobID: s.JobID, Kind: WakeEffect, ID: id}})
		if err != nil {
			return err
		}
		done = out[0].Applied
		return nil
	})
	return done && err == nil, err
}
