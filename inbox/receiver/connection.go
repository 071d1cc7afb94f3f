package receiver

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// connection is one that a [Connections] has admitted.
type connection struct {
	net.Conn
	of   *Connections
	addr netip.Addr

	phase    atomic.Int32
	since    atomic.Int64 // Unix nanoseconds: when the phase began
	received atomic.Int64 // bytes, since the phase began
	proved   atomic.Bool  // a verified delivery came by it
}

// phase is what a connection does.
type phase int32

const (
	// phaseWaiting: a request has not begun, or its headers have not ended.
	phaseWaiting phase = iota
	// phaseArriving: the headers have ended and the body may not have.
	phaseArriving
	// phaseAnswering: the request has arrived. Such a connection is never closed for
	// another one.
	phaseAnswering
)

func (c *connection) enter(state http.ConnState, now time.Time) {
	switch state {
	case http.StateNew, http.StateIdle:
		c.begin(phaseWaiting, now)
	case http.StateActive:
		c.begin(phaseArriving, now)
	case http.StateClosed, http.StateHijacked:
	}
}

func (c *connection) begin(p phase, now time.Time) {
	c.phase.Store(int32(p))
	c.since.Store(now.UnixNano())
	c.received.Store(0)
}

// worth returns how fast the connection brings bytes in its phase, in bytes a second, and
// whether it has proved itself and waits for the next delivery. ok is false if the
// connection must not be closed.
func (c *connection) worth(now time.Time) (rate float64, proved, ok bool) {
	p := phase(c.phase.Load())
	if p == phaseAnswering {
		return 0, false, false
	}
	rate = float64(c.received.Load()+headStart) / max(now.Sub(time.Unix(0, c.since.Load())).Seconds(), 0.001)
	return rate, p == phaseWaiting && c.proved.Load(), true
}

// Read implements [net.Conn].
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.of.mu.Lock()
	c.of.forget(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets the server end its answer before it closes the connection.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connectionKey struct{}

// connectionOf returns the connection of a request; nil if its listener is not bounded.
func connectionOf(ctx context.Context) *connection {
	one, _ := ctx.Value(connectionKey{}).(*connection)
	return one
}

// arrived records that the request has arrived and is being answered.
func (c *connection) arrived(now time.Time) {
	if c != nil {
		c.begin(phaseAnswering, now)
	}
}

// prove records that a verified delivery has come.
func (c *connection) prove() {
	if c != nil {
		c.proved.Store(true)
	}
}
