package row

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Batcher is a pool or a transaction. Sent to a pool, a batch is a separate
// transaction.
type Batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Querier is a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}
