package row

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// setStatementTimeout holds for the statement that is sent behind it, since both are one transaction.
const setStatementTimeout = `SELECT set_config('statement_timeout', $1, true)`

// statementTime is the key in a context of the time that a statement has.
type statementTime struct{}

// LimitTime gives a context in which [Query] ends a statement after the time that left gives when it begins. The server
// ends it, so that the connection stays good.
func LimitTime(ctx context.Context, left func() time.Duration) context.Context {
	return context.WithValue(ctx, statementTime{}, left)
}

// Reader is a pool or a transaction that is read from. Sent to a pool, a batch is a transaction of its own.
type Reader interface {
	Querier
	Batcher
}

// Query runs a statement and has read take its rows, within the time that [LimitTime] gave its context. [TimedOut]
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

// Collect runs a statement as [Query] does and gives its rows.
func Collect[Row any](ctx context.Context, db Reader, s *Statement, scan pgx.RowToFunc[Row]) (out []Row, err error) {
	sql, args := s.SQL()
	err = Query(ctx, db, sql, args, func(rows pgx.Rows) (err error) {
		out, err = pgx.CollectRows(rows, scan)
		return err
	})
	return out, err
}

// QueryOne runs a statement as [Query] does that gives one row or none, and reports whether it did.
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
