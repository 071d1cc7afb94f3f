package faulttest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// Fault is something that a server or the network does to a connection. The zero value is none.
type Fault struct {
	// Greeting closes or stalls a connection before the server says anything.
	Greeting Act

	// Message fails what the server writes after it has stored a message.
	Message Act

	// Settled reports that the server has stored a message. Servers of this package set it.
	Settled func() bool
}

// Act is how a connection fails.
type Act string

// The acts. The empty one is none.
const (
	Cut   Act = "cut"                 // closes the connection
	Stall Act = "stall"               // says nothing more
	Half  Act = "half a reply"        // writes half of what the server answers, and closes
	Drip  Act = "a reply in drops"    // writes a byte in 50 ms
	Junk  Act = "a reply without end" // writes bytes that are no reply until the other side stops reading
)

// faultyConn is the server's side of a connection.
type faultyConn struct {
	net.Conn
	fault Fault
	done  chan struct{}
	once  sync.Once
}

// Write implements [net.Conn].
func (c *faultyConn) Write(p []byte) (int, error) {
	if c.fault.Message == "" || !c.fault.Settled() {
		return c.Conn.Write(p)
	}
	switch c.fault.Message {
	case Cut:
		_ = c.Close()
	case Half:
		_, _ = c.Conn.Write(p[:len(p)/2])
		_ = c.Close()
	case Drip:
		for i := range p {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-c.done:
				return i, net.ErrClosed
			}
			if _, err := c.Conn.Write(p[i : i+1]); err != nil {
				return i, err
			}
		}
	case Junk:
		junk := bytes.Repeat([]byte("\x7fjunk"), 10_000)
		for {
			if _, err := c.Conn.Write(junk); err != nil {
				return 0, err
			}
		}
	case Stall:
	}
	return len(p), nil
}

// Close implements [net.Conn].
func (c *faultyConn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}

// faultyListener makes the connections of a server faulty.
type faultyListener struct {
	net.Listener
	fault func() Fault
}

// Accept implements [net.Listener].
func (l *faultyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		fault := l.fault()
		switch fault.Greeting {
		case Cut:
			_ = conn.Close()
			continue
		case Stall, Half, Drip, Junk:
			continue // the other side waits until the test ends
		}
		return &faultyConn{Conn: conn, fault: fault, done: make(chan struct{})}, nil
	}
}

// proxy passes connections on to a server, and fails as a fault says.
func proxy(tb testing.TB, to string, fault func() Fault, wire *wiretap) (address string) {
	tb.Helper()
	plain, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	listener := &faultyListener{plain, fault}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(tb.Context(), "tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			open.Go(func() { pass(server, client, wire.add()) })
			open.Go(func() { pass(client, server, func([]byte) {}) })
		}
	})
	tb.Cleanup(func() { _ = plain.Close() })
	return plain.Addr().String()
}

// pass copies until one side ends, and then closes both. seen gets the bytes first.
func pass(to, from net.Conn, seen func([]byte)) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			seen(buffer[:n])
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
