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

const readTables = `SELECT 'inbox_event'::regclass::oid::bigint`

// Tables identifies the tables of the pool's schema: dropped and made anew, they are others, and
// hold nothing of what a process registered in the old ones.
func Tables(ctx context.Context, pool *pgxpool.Pool) (int64, error) {
	var id int64
	if err := pool.QueryRow(ctx, readTables).Scan(&id); err != nil {
		return 0, fmt.Errorf("identifying the tables: %w", err)
	}
	return id, nil
}
