package migrations_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/migrations"
)

// cancelCode is the code of a CancelRequest, which is the first message of a connection made for
// it: https://www.postgresql.org/docs/current/protocol-message-formats.html
const cancelCode = 80877102

// overlap makes a migration end while the connection that observes it waits for an answer. The
// answer comes when a cancel request was sent, or grace after the migration's commit.
type overlap struct {
	grace     time.Duration
	committed func() // has effect once
	commit    <-chan struct{}
	cancelled func()
	cancel    <-chan struct{}
	observed  func()
	observe   <-chan struct{}
}

func newOverlap(grace time.Duration) *overlap {
	o := &overlap{grace: grace}
	once := func() (func(), <-chan struct{}) {
		c := make(chan struct{})
		return sync.OnceFunc(func() { close(c) }), c
	}
	o.committed, o.commit = once()
	o.cancelled, o.cancel = once()
	o.observed, o.observe = once()
	return o
}

func (o *overlap) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &overlapConn{Conn: conn, overlap: o}, err
}

type overlapConn struct {
	net.Conn
	*overlap
	held bool
}

func (c *overlapConn) Write(b []byte) (int, error) {
	switch {
	case len(b) == 16 && binary.BigEndian.Uint32(b[4:]) == cancelCode:
		c.cancelled()
	case bytes.Contains(b, []byte("pg_blocking_pids")):
		c.held = true
		c.observed()
	case bytes.Contains(b, []byte("commit")):
		c.committed()
	}
	return c.Conn.Write(b)
}

func (c *overlapConn) Read(b []byte) (int, error) {
	if c.held {
		<-c.commit
		select {
		case <-c.cancel:
		case <-time.After(c.grace):
		}
		c.held = false
	}
	return c.Conn.Read(b)
}

// A cancel request that arrives while its statement ends can end PgBouncer, so a migration that
// ends while it is observed sends none.
func TestAnObservedMigrationCancelsNothing(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	o := newOverlap(200 * time.Millisecond)
	slow := [2]string{says(migrations.Version) + "SELECT pg_sleep(1.5)", "SELECT"}
	cfg := migrations.Config{URL: url, Schema: schema}.Add(slow).Dial(o.dial)
	if err := migrator(t, cfg).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-o.observe:
	default:
		t.Fatal("the migration was not observed")
	}
	select {
	case <-o.commit:
	default:
		t.Fatal("no commit was seen")
	}
	select {
	case <-o.cancel:
		t.Error("a cancel request was sent")
	default:
	}
}
