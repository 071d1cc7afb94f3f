package session

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// These times determine when a connection to the database counts as dead. A peer that
// vanished sends no reset. Without these limits a statement would wait for its answer until
// the kernel gives up, after minutes or hours.
const (
	// pingTimeout limits the check of a connection that was idle for more than a second.
	pingTimeout = 2 * time.Second

	// connectTimeout limits opening a connection, if the url has no limit.
	connectTimeout = 5 * time.Second

	// userTimeout is how long sent data may stay unacknowledged by the other machine. On a
	// system without TCP_USER_TIMEOUT, only keepalives detect a dead peer.
	userTimeout = 15 * time.Second

	// checkInterval is how often the server checks, during a long statement, whether its
	// client is still connected.
	checkInterval = 5 * time.Second

	// The TCP keepalives with which both ends check a silent connection.
	keepaliveIdle     = 10 * time.Second
	keepaliveInterval = 5 * time.Second
	keepaliveCount    = 3

	// silentAfter is how long a connection that timed out must have owed an answer to count
	// as silent, and not only as slow.
	silentAfter = time.Second

	// staleApart is the least time between two renewals of a pool whose prepared statements
	// are stale.
	staleApart = 100 * time.Millisecond

	// renewEvery is the least time between two renewals of a pool.
	renewEvery = 2 * time.Second
)

// watcher opens a pool's connections. It renews the pool when one of them is silent, because
// the others probably are too, and each would cost a caller its deadline.
type watcher struct {
	// silence is how long a read may wait for an answer, even if the caller has no deadline.
	// River has none for its fetches. 0 means no limit.
	silence time.Duration

	// now is the machine's clock, which the deadlines of connections use.
	now func() time.Time

	// history forgets a connection when it is closed.
	history *History

	pool atomic.Pointer[pgxpool.Pool]

	mu      sync.Mutex
	renewed time.Time

	// restated is when the pool was last renewed for stale statements.
	restated time.Time
}

// dial opens a connection. It is the pool's DialFunc.
func (w *watcher) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: keepaliveInterval, Count: keepaliveCount},
		Control:         setUserTimeout,
	}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: conn, watcher: w, made: w.now()}, nil
}

// silent renews the pool, unless it was renewed after the connection was opened or within
// renewEvery.
func (w *watcher) silent(made time.Time) {
	now := w.now()
	w.mu.Lock()
	due := made.After(w.renewed) && now.Sub(w.renewed) >= renewEvery
	if due {
		w.renewed = now
	}
	w.mu.Unlock()
	if pool := w.pool.Load(); due && pool != nil {
		pool.Reset()
	}
}

// stale renews the pool after a statement was stale. The pool closes connections in use when
// they are released.
func (w *watcher) stale() {
	now := w.now()
	w.mu.Lock()
	due := now.Sub(w.restated) >= staleApart
	if due {
		w.restated = now
	}
	w.mu.Unlock()
	if pool := w.pool.Load(); due && pool != nil {
		pool.Reset()
	}
}

// watchedConn notices when the server owes an answer and does not send it.
type watchedConn struct {
	net.Conn
	watcher *watcher
	made    time.Time

	// owed is the time of the first write after which nothing has been read, in Unix
	// nanoseconds; 0 if no answer is owed.
	owed atomic.Int64

	// deadline is the deadline that the caller has set. ours says that bound has set another.
	mu       sync.Mutex
	deadline time.Time
	ours     bool
}

// Write implements [net.Conn].
func (c *watchedConn) Write(b []byte) (int, error) {
	c.owed.CompareAndSwap(0, c.watcher.now().UnixNano())
	n, err := c.Conn.Write(b)
	if err != nil {
		c.look(err)
	}
	return n, err
}

// Read implements [net.Conn].
func (c *watchedConn) Read(b []byte) (int, error) {
	if c.watcher.silence > 0 {
		c.bound()
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.owed.Store(0)
	}
	if err != nil {
		c.look(err)
	}
	return n, err
}

// Close implements [net.Conn].
func (c *watchedConn) Close() error {
	c.watcher.history.forget(c)
	return c.Conn.Close()
}

// bound sets the deadline of a read. It is the caller's deadline or, if an answer is owed and
// it is earlier, the limit of silence.
func (c *watchedConn) bound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	owed := c.owed.Load()
	if owed == 0 {
		if c.ours {
			c.ours = false
			_ = c.Conn.SetReadDeadline(c.deadline)
		}
		return
	}
	if limit := time.Unix(0, owed).Add(c.watcher.silence); c.deadline.IsZero() || limit.Before(c.deadline) {
		c.ours = true
		_ = c.Conn.SetReadDeadline(limit)
	}
}

// SetDeadline implements [net.Conn].
func (c *watchedConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline, c.ours = t, false
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (c *watchedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline, c.ours = t, false
	return c.Conn.SetReadDeadline(t)
}

// look renews the pool if the error is a timeout of a connection that has owed an answer for
// silentAfter or longer.
func (c *watchedConn) look(err error) {
	timeout, ok := errors.AsType[net.Error](err)
	if !errors.Is(err, os.ErrDeadlineExceeded) && !(ok && timeout.Timeout()) { // the latter is ETIMEDOUT
		return
	}
	if owed := c.owed.Load(); owed != 0 && c.watcher.now().Sub(time.Unix(0, owed)) >= silentAfter {
		c.watcher.silent(c.made)
	}
}
