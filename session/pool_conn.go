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

// How a connection to the database is told dead. A peer that vanished sends no reset:
// without these, a statement waits for its answer until the kernel gives up, after
// minutes or hours.
const (
	// pingTimeout bounds the ping by which the pool tries a connection that was idle
	// for more than a second.
	pingTimeout = 2 * time.Second

	// connectTimeout bounds the making of a connection, where the url does not say.
	connectTimeout = 5 * time.Second

	// userTimeout is how long what was sent may stay unacknowledged by the other
	// machine. Where the system does not know it, keepalives alone tell.
	userTimeout = 15 * time.Second

	// checkInterval is how often the server looks, during a long statement, whether its
	// client is still there.
	checkInterval = 5 * time.Second

	// How either end asks a connection that says nothing whether it still stands.
	keepaliveIdle     = 10 * time.Second
	keepaliveInterval = 5 * time.Second
	keepaliveCount    = 3

	// silentAfter is how long a connection that was given up must have owed an answer,
	// to be taken for silent and not merely for slow.
	silentAfter = time.Second

	// staleApart is the least time between two renewals of a pool whose prepared statements
	// are stale.
	staleApart = 100 * time.Millisecond

	// renewEvery is the least time between two renewals of a pool.
	renewEvery = 2 * time.Second
)

// watcher makes a pool's connections and renews the pool when one of them is silent:
// the others most likely went the same way, and each would cost a caller its deadline.
type watcher struct {
	// silence is how long an answer may be waited for, also where the caller has no
	// deadline, as River has none for its fetches; 0 is for ever.
	silence time.Duration

	// now is the machine's clock, on which connections have their deadlines.
	now func() time.Time

	// history forgets a connection when it is closed.
	history *History

	pool atomic.Pointer[pgxpool.Pool]

	mu      sync.Mutex
	renewed time.Time

	// restated is when the pool was last renewed for stale statements.
	restated time.Time
}

// dial connects; the pool takes it for its DialFunc.
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

// silent renews the pool, unless it was since the connection was made.
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

// stale renews the pool after a statement was found stale. Connections that are in use then
// are closed when they come back.
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

// watchedConn notices that an answer is owed and does not come.
type watchedConn struct {
	net.Conn
	watcher *watcher
	made    time.Time

	// owed is when something was written that nothing has been read since; 0 is that
	// nothing is owed. In nanoseconds.
	owed atomic.Int64

	// The deadline that the caller has set, and whether the inner one is ours.
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

// bound sets the deadline of a read: the caller's or, if that is later and an answer
// is owed, ours.
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

// look tells a connection that was given up while it owed an answer from one that
// was closed.
func (c *watchedConn) look(err error) {
	timeout, ok := errors.AsType[net.Error](err)
	if !errors.Is(err, os.ErrDeadlineExceeded) && !(ok && timeout.Timeout()) { // the latter is ETIMEDOUT
		return
	}
	if owed := c.owed.Load(); owed != 0 && c.watcher.now().Sub(time.Unix(0, owed)) >= silentAfter {
		c.watcher.silent(c.made)
	}
}
