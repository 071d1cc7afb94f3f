package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrStandby and ErrReadOnly are returned by [Writable].
var (
	ErrStandby = errors.New("the database is a standby: point database.url at the primary, " +
		"or name all servers there with target_session_attrs=read-write")
	ErrReadOnly = errors.New("the database is read-only: default_transaction_read_only is on for it, its role or the server")
)

const readWritable = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean`

// Writable returns [ErrStandby] or [ErrReadOnly] if the database takes no writes, and another
// error if it could not be asked. A pool that finds a standby is emptied: its other connections
// lead there too, and new ones may lead to the server that has taken over.
func Writable(ctx context.Context, pool *pgxpool.Pool) error {
	var standby, readOnly bool
	if err := pool.QueryRow(ctx, readWritable).Scan(&standby, &readOnly); err != nil {
		return fmt.Errorf("asking the database whether it takes writes: %w", err)
	}
	switch {
	case standby:
		pool.Reset()
		return ErrStandby
	case readOnly:
		pool.Reset()
		return ErrReadOnly
	}
	return nil
}
