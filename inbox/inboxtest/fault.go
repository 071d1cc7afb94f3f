package inboxtest

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/gate"
)

// ErrCut is the error of a fault for the client: the connection is gone.
var ErrCut = io.ErrUnexpectedEOF

// ErrFatal is a server that ends the connection, perhaps after a COMMIT took
// effect.
var ErrFatal error = &pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01", Message: "terminating connection due to administrator command"}

// Fault strikes at one database call of those that go through its connections.
// The zero Fault strikes never. It is safe for concurrent use.
type Fault struct {
	// N is the call that is struck, from 1; 0 strikes none.
	N int

	// Onwards strikes every call from the n-th on, so that the database never comes
	// back.
	Onwards bool

	// After lets the call take effect and loses the answer; otherwise the call is never
	// sent.
	After bool

	// Err is the error that the caller gets; nil uses [ErrCut].
	Err error

	// Commits strikes the first call that carries a COMMIT, regardless of its number.
	Commits bool

	mu     sync.Mutex
	calls  int
	struck bool
	codes  map[string]int
}

// Struck reports whether the fault has struck.
func (f *Fault) Struck() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

// Calls returns the number of calls so far.
func (f *Fault) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Codes counts the errors, by SQLSTATE, that the server itself answered.
func (f *Fault) Codes(code string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.codes[code]
}

func (f *Fault) strikes(commit bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	onwards := f.Onwards && f.N > 0 && f.calls >= f.N
	if !onwards && (f.struck || (f.calls != f.N && (!f.Commits || !commit))) {
		return false
	}
	f.struck = true
	return true
}

func (f *Fault) saw(err error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.codes == nil {
		f.codes = map[string]int{}
	}
	f.codes[pg.Code]++
}

func (f *Fault) err() error {
	if f.Err != nil {
		return f.Err
	}
	return ErrCut
}

// Acquire returns connections of pool through which the fault strikes.
func (f *Fault) Acquire(pool *pgxpool.Pool) gate.Acquire {
	return func(ctx context.Context) (gate.Conn, error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return &faultConn{Conn: conn, fault: f}, nil
	}
}

type faultConn struct {
	*pgxpool.Conn
	fault *Fault
	cut   bool
}

func (c *faultConn) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if c.cut {
		return failed{err: ErrCut}
	}
	commit := false
	for _, q := range b.QueuedQueries {
		commit = commit || q.SQL == "COMMIT"
	}
	if !c.fault.strikes(commit) {
		return watched{c.Conn.SendBatch(ctx, b), c.fault}
	}
	c.cut = true
	if c.fault.After {
		if err := c.Conn.SendBatch(ctx, b).Close(); err != nil {
			return failed{err: err}
		}
	}
	return failed{err: c.fault.err()}
}

func (c *faultConn) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if c.cut {
		return pgconn.CommandTag{}, ErrCut
	}
	return c.Conn.Exec(ctx, sql, args...)
}

func (c *faultConn) Warned() bool { return false }

func (c *faultConn) Release(broken bool) {
	if broken || c.cut {
		_ = c.Conn.Conn().Close(context.Background())
	}
	c.Conn.Release()
}

// watched counts the server's own errors.
type watched struct {
	pgx.BatchResults
	fault *Fault
}

func (w watched) Close() error {
	err := w.BatchResults.Close()
	w.fault.saw(err)
	return err
}

// failed is the result of a batch whose answer never came.
type failed struct {
	pgx.BatchResults
	err error
}

func (f failed) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, f.err }
func (f failed) Query() (pgx.Rows, error)         { return nil, f.err }
func (f failed) QueryRow() pgx.Row                { return failedRow{f.err} }
func (f failed) Close() error                     { return f.err }

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
