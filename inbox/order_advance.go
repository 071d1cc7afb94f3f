package inbox

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// AdvanceStreamTx decides about the next effects of a stream, after the caller has moved its applied number.
func (e *Effects) AdvanceStreamTx(ctx context.Context, tx pgx.Tx, route int32, hash []byte) error {
	o := e.newOrder(sendTo(tx))
	o.streamFor(route, hash)
	var first, last pgx.Batch
	o.queueLock(&first, o.streams)
	o.queueRead(&first, o.streams)
	if err := o.begin(ctx, &first, nil); err != nil {
		return err
	}
	if err := o.decide(ctx, nil, &last); err != nil {
		return err
	}
	return o.send(ctx, &last)
}
