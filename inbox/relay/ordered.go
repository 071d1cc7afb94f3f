package relay

import (
	"context"
	"time"
)

// The time at which a batch arrives: later than all that was given to the source
// before, by whichever relay, also if a clock was set back. It is committed before it
// is used, so that a relay which dies leaves no time that is given twice.
const takeArrival = `
UPDATE source SET emitted_at = greatest(clock_timestamp(), emitted_at + interval '1 microsecond') WHERE coalesce(key_name, name) = $1
RETURNING emitted_at`

// admitArrival takes rows of a source with a route in order of arrival to the gate as one delivery of many events: their
// order in the delivery is that of their arrival. It returns no ids if the gate does not take the delivery, which then holds up
// its source.
func (r *Relay) admitArrival(ctx context.Context, rows []outboxRow) ([]int64, error) {
	var at time.Time
	if err := r.cfg.Pool.QueryRow(ctx, takeArrival, rows[0].Source).Scan(&at); err != nil {
		return nil, err
	}
	receipt, err := r.accept(ctx, r.admission(rows, at))
	if err != nil {
		r.logLeft(ctx, len(rows), err)
		return nil, nil
	}
	return r.counted(ctx, nil, rows, &receipt), nil
}
