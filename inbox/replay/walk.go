package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
)

// The server sorts the ids once and keeps them, on disk if they are many, until the connection asks for the next page. It sends
// only the page that is read next, because TCP ends a connection whose answer stays unread for seconds, however busy the reader
// is. No transaction is open between two pages, so a long plan holds up neither vacuum nor locks.
const (
	declareScope = `DECLARE replay_scope NO SCROLL CURSOR WITH HOLD FOR `
	fetchScope   = `FETCH %d FROM replay_scope`
	closeScope   = `CLOSE replay_scope`
)

// walk finds the ids of the scope and calls do with one page after the other.
func (p *plan) walk(ctx context.Context, sql string, args []any, do func(context.Context, []inbox.ID) error) error {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		// Sorting may take the server long.
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, declareScope+sql, args...)
		return err
	})
	if err != nil {
		return err
	}
	defer endScope(context.WithoutCancel(ctx), conn)
	for {
		rows, err := conn.Query(ctx, fmt.Sprintf(fetchScope, p.page))
		if err != nil {
			return err
		}
		page, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
		if err != nil || len(page) == 0 {
			return err
		}
		if err := do(ctx, page); err != nil {
			return err
		}
	}
}

// endScope closes the cursor. If that fails, it closes the connection, so that the pool does not use it again.
func endScope(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, closeScope); err != nil {
		_ = conn.Conn().Close(ctx) // the pool sees that it is closed
	}
}
