package rollup_test

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// switched is a database that can be away.
type switched struct {
	*pgxpool.Pool
	down atomic.Bool
}

func (s *switched) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if s.down.Load() {
		return pgconn.CommandTag{}, errLost
	}
	return s.Pool.Exec(ctx, sql, args...)
}
