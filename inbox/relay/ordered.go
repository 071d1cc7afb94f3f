package relay

import "context"

// admitArrival passes rows of a source with a route in order of arrival to the gate as one delivery of many events,
// in the order in which the rows arrived. It returns no ids if the gate does not take the delivery. The later rows of
// the source then wait.
func (r *Relay) admitArrival(ctx context.Context, rows []outboxRow) []int64 {
	receipt, err := r.accept(ctx, r.admission(rows, r.cfg.Clock.Now()))
	if err != nil {
		r.logLeft(ctx, len(rows), err)
		return nil
	}
	return r.counted(ctx, nil, rows, &receipt)
}
