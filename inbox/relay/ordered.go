package relay

import "context"

// admitArrival takes rows of a source with a route in order of arrival to the gate as one delivery of many events, in
// the order in which the rows arrived. It returns no ids if the gate does not take the delivery, which then holds up
// its source.
func (r *Relay) admitArrival(ctx context.Context, rows []outboxRow) []int64 {
	receipt, err := r.accept(ctx, r.admission(rows, r.cfg.Clock.Now()))
	if err != nil {
		r.logLeft(ctx, len(rows), err)
		return nil
	}
	return r.counted(ctx, nil, rows, &receipt)
}
