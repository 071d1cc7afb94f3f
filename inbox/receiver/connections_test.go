package receiver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/logtest"
)

// bounded is a server with few connections.
type bounded struct {
	address     string
	connections *receiver.Connections
	log         *logtest.Buffer
	stop        func()
}

func bound(t *testing.T, g *fakeGate, limits receiver.ConnectionsConfig) *bounded {
	t.Helper()
	b := &bounded{log: &logtest.Buffer{}}
	limits.Logger = slog.New(slog.NewTextHandler(b.log, nil))
	var err error
	if b.connections, err = receiver.NewConnections(limits); err != nil {
		t.Fatal(err)
	}
	cfg := config(g, newProvider())
	cfg.BodyTimeout, cfg.LeastBodyRate = time.Hour, -1
	server, err := receiver.NewServer(receiver.ServerConfig{
		Handler: newReceiver(t, cfg), Logger: slog.New(slog.DiscardHandler), Connections: b.connections,
		ReadHeaderTimeout: time.Hour, WriteTimeout: time.Hour, IdleTimeout: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	inner := listen(t)
	b.address = inner.Addr().String()
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(b.connections.Listen(inner)) }()
	b.stop = sync.OnceFunc(func() { _ = server.Close(); <-served })
	t.Cleanup(b.stop)
	return b
}

// dialFrom connects from an address of this machine: all of 127/8 are.
func (b *bounded) dialFrom(t *testing.T, from string) *client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", b.address)
	if err != nil {
		t.Skipf("this machine cannot connect from %s, so that what one peer of several may take is not tested here; Linux can, since it has all of 127/8: %v", from, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return &client{t, conn, bufio.NewReader(conn)}
}

// client is one connection to a bounded server.
type client struct {
	t      *testing.T
	conn   net.Conn
	answer *bufio.Reader
}

func (c *client) send(text string) { _, _ = io.WriteString(c.conn, text) }

// status reads one answer; it is empty if the connection was closed.
func (c *client) status() string {
	answer, err := http.ReadResponse(c.answer, nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "nothing in a minute"
	}
	if err != nil {
		return ""
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.Status
}

func (c *client) deliver() string {
	c.send(whole(event))
	return c.status()
}

func (b *bounded) until(t *testing.T, open int) {
	t.Helper()
	inboxtest.Until(t, fmt.Sprint(open, " open connections"), func() bool { return b.connections.Stats().Open == open })
}

// Empty connections make room for new ones, the oldest first, and whoever has delivered
// keeps the connection for the next delivery.
func TestEmptyConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var passed atomic.Int64
	now := func() time.Time { return began.Add(time.Duration(passed.Load())) }
	b := bound(t, &fakeGate{}, receiver.ConnectionsConfig{Most: 40, MostOfPeer: 40, Now: now})
	good := b.dialFrom(t, "127.0.0.1")
	if status := good.deliver(); status != accepted {
		t.Fatalf("a delivery: %s", status)
	}
	var empty []*client
	for n := range 39 {
		one := b.dialFrom(t, "127.0.0.1")
		if n%3 == 1 {
			one.send("POST /in/shop HTTP/1.1\r\nX-Slow: ")
		}
		empty = append(empty, one)
		b.until(t, n+2)
		passed.Add(int64(time.Second))
	}
	for n := range 20 {
		one := b.dialFrom(t, "127.0.0.1")
		if status := one.deliver(); status != accepted {
			t.Fatalf("new connection %d: %s", n, status)
		}
		if status := empty[n].status(); status != "" {
			t.Errorf("empty connection %d, the oldest of all: %s", n, status)
		}
	}
	if status := good.deliver(); status != accepted {
		t.Errorf("the next delivery by the first connection: %q", status)
	}
	if stats := b.connections.Stats(); stats.Shed != 20 || stats.Refused != 0 || stats.Open != 40 {
		t.Errorf("%+v, want 20 shed and 40 open", stats)
	}
}

// Connections that carry slow bodies make room as well, and those whose delivery is being
// answered never do: if there are no others, the new one is refused.
func TestSlowBodiesMakeRoomForConnections(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var once sync.Once
	g := &fakeGate{answer: func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		<-release
		return receipt(a, inbox.Recorded), nil
	}}
	b := bound(t, g, receiver.ConnectionsConfig{Most: 20, MostOfPeer: 20})
	t.Cleanup(func() { once.Do(func() { close(release) }) })
	large := strings.Repeat("x", maxBody)
	for n := range 10 {
		one := b.dialFrom(t, "127.0.0.1")
		one.send(head(large, fmt.Sprint("Content-Length: ", maxBody)) + large[:100])
		b.until(t, n+1)
	}
	var answering []*client
	for n := range 20 {
		one := b.dialFrom(t, "127.0.0.1")
		one.send(whole(event))
		answering = append(answering, one)
		inboxtest.Until(t, "the delivery to be in the gate", func() bool { return len(g.admissions()) == n+1 })
	}
	if stats := b.connections.Stats(); stats.Shed != 10 || stats.Refused != 0 || stats.Open != 20 {
		t.Errorf("%+v, want the 10 slow ones shed", stats)
	}
	one := b.dialFrom(t, "127.0.0.1")
	if status := one.deliver(); status != "" {
		t.Errorf("one more, when all are being answered: %s", status)
	}
	once.Do(func() { close(release) })
	for n, one := range answering {
		if status := one.status(); status != accepted {
			t.Errorf("delivery %d: %q", n, status)
		}
	}
}

// A peer's connections make room for each other, and those of others are left alone; a
// trusted proxy has no limit of its own.
func TestAPeerHasALimitOfConnections(t *testing.T) {
	t.Parallel()
	b := bound(t, &fakeGate{}, receiver.ConnectionsConfig{Most: 100, MostOfPeer: 10, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.3/32")}})
	other := b.dialFrom(t, "127.0.0.2")
	b.until(t, 1)
	for range 30 {
		b.dialFrom(t, "127.0.0.1")
	}
	b.until(t, 11)
	for n := range 5 {
		if status := b.dialFrom(t, "127.0.0.1").deliver(); status != accepted {
			t.Errorf("delivery %d of the peer that is at its limit: %q", n, status)
		}
	}
	if status := other.deliver(); status != accepted {
		t.Errorf("the connection of another peer: %q", status)
	}
	for range 30 {
		b.dialFrom(t, "127.0.0.3")
	}
	b.until(t, 41)
	inboxtest.Until(t, "the limit to be told", func() bool {
		return strings.Contains(b.log.String(), "peer=127.0.0.1") && strings.Contains(b.log.String(), "listen.trusted_proxies")
	})
	if text := b.log.String(); strings.Count(text, "\n") != 1 || strings.Contains(text, "127.0.0.3") {
		t.Errorf("the log: %s", text)
	}
}

// A flood of empty connections, far more than there may be, costs good deliveries nothing
// and leaves nothing behind.
func TestAFloodOfConnectionsHurtsNobody(t *testing.T) {
	t.Parallel()
	labels := pprof.Labels("test", "flood of connections")
	var b *bounded
	g := &fakeGate{}
	pprof.Do(t.Context(), labels, func(context.Context) {
		b = bound(t, g, receiver.ConnectionsConfig{Most: 64})
	})
	kept := b.dialFrom(t, "127.0.0.1")
	if status := kept.deliver(); status != accepted {
		t.Fatalf("a delivery: %s", status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for n := range 4 {
		flood.Go(func() {
			var held []net.Conn
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n+1))}}
			for len(held) < 300 && ctx.Err() == nil {
				conn, err := dialer.DialContext(ctx, "tcp", b.address)
				if err != nil {
					break
				}
				held = append(held, conn)
			}
			for _, conn := range held {
				_ = conn.Close()
			}
		})
	}
	for n := range 50 {
		if status := kept.deliver(); status != accepted {
			t.Fatalf("delivery %d by a connection that is kept: %q", n, status)
		}
		if status := b.dialFrom(t, "127.0.0.2").deliver(); status != accepted {
			t.Errorf("delivery %d by a new connection: %q", n, status)
		}
		if open := b.connections.Stats().Open; open > 64 {
			t.Errorf("%d connections are open", open)
		}
	}
	cancel()
	flood.Wait()
	if n := len(g.admissions()); n != 101 {
		t.Errorf("%d deliveries reached the gate, want the 101 good ones", n)
	}
	b.stop()
	inboxtest.Until(t, "the server's goroutines to end", func() bool {
		var profile bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
		return !strings.Contains(profile.String(), `"test":"flood of connections"`)
	})
	if stats := b.connections.Stats(); stats.Open != 0 || stats.Peers != 0 {
		t.Errorf("%+v at rest", stats)
	}
}
