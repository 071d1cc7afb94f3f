package inboxtest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Cut is a process that dies at one of the messages it sends to the server, from
// 1, counted over all connections of its pool: all of them are gone then. It is
// safe for concurrent use.
type Cut struct {
	// N is the message; 0 is none.
	N int

	// After lets the message arrive and loses the answer; else it is never sent.
	After bool

	mu     sync.Mutex
	sent   int
	struck bool
	open   []net.Conn
}

// Struck reports whether the process has died.
func (c *Cut) Struck() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.struck
}

// Sent is how many messages were sent since Arm.
func (c *Cut) Sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// Arm counts from here: what the pool sent to connect does not count.
func (c *Cut) Arm(n int, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.N, c.After, c.sent, c.struck = n, after, 0, false
}

// Pool is a pool like the one given, through connections that the process loses
// when it dies. A new connection may be made afterwards: the process is started
// again.
func (c *Cut) Pool(tb testing.TB, like *pgxpool.Pool) *pgxpool.Pool {
	tb.Helper()
	cfg := like.Config()
	cfg.ConnConfig.DialFunc = c.Dial
	pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// Dial connects for the process.
func (c *Cut) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, conn)
	return &cutConn{Conn: conn, cut: c}, nil
}

// cutConn is one connection of the process.
type cutConn struct {
	net.Conn
	cut *Cut
}

// Write implements [net.Conn].
func (c *cutConn) Write(b []byte) (int, error) {
	c.cut.mu.Lock()
	defer c.cut.mu.Unlock()
	c.cut.sent++
	if c.cut.struck || c.cut.sent != c.cut.N {
		return c.Conn.Write(b)
	}
	c.cut.struck = true
	if c.cut.After {
		_, _ = c.Conn.Write(b)
	}
	for _, conn := range c.cut.open {
		_ = conn.Close()
	}
	c.cut.open = nil
	return 0, ErrCut
}
