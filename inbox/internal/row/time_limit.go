package row

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// setStatementTimeout applies to the statement that is sent after it, because both are in one transaction.
const setStatementTimeout = `SELECT set_config('statement_timeout', $1, true)`

// statementTime is the key in a context of the time that a statement has.
type statementTime struct{}

// LimitTime returns a context in which [Query] limits the time of a statement to the value of left when the statement
// begins. The server ends the statement, so that the connection stays usable.
func LimitTime(ctx context.Context, left func() time.Duration) context.Context {
	return context.WithValue(ctx, statementTime{}, left)
}

// Reader is a pool or a transaction for reading. Sent to a pool, a batch is a separate transaction.
type Reader interface {
	Querier
	Batcher
}

// Query runs a statement and calls read for its rows, within the time that [LimitTime] set in its context. [TimedOut]
// recognises the error of a statement that took longer.
func Query(ctx context.Context, db Reader, sql string, args []any, read func(pgx.Rows) error) error {
	left, limited := ctx.Value(statementTime{}).(func() time.Duration)
	if !limited {
		rows, err := db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		return read(rows)
	}
	var b pgx.Batch
	b.Queue(setStatementTimeout, strconv.FormatInt(max(left().Milliseconds(), 1), 10)) // 0 is no limit
	b.Queue(sql, args...).Query(read)
	return db.SendBatch(ctx, &b).Close()
}

// Collect runs a statement like [Query] and returns its rows.
func Collect[Row any](ctx context.Context, db Reader, s *Statement, scan pgx.RowToFunc[Row]) (out []Row, err error) {
	sql, args := s.SQL()
	err = Query(ctx, db, sql, args, func(rows pgx.Rows) (err error) {
		out, err = pgx.CollectRows(rows, scan)
		return err
	})
	return out, err
}

// QueryOne runs a statement like [Query] that returns at most one row, and reports whether there was one.
func QueryOne(ctx context.Context, db Reader, s *Statement, into ...any) (found bool, err error) {
	sql, args := s.SQL()
	err = Query(ctx, db, sql, args, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, into, func() error { found = true; return nil })
		return err
	})
	return found, err
}

// TimedOut reports whether the server ended a statement because of its statement_timeout.
func TimedOut(err error) bool {
	const queryCanceled = "57014"
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == queryCanceled
}
