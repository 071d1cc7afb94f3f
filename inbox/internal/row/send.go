package row

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// SendTo returns a function that sends batches in the caller's transaction.
func SendTo(db Batcher) func(context.Context, *pgx.Batch) error {
	return func(ctx context.Context, b *pgx.Batch) error { return db.SendBatch(ctx, b).Close() }
}
