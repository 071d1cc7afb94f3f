package session_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
)

// pair is a primary with an asynchronous standby, and a process that knows both.
type pair struct {
	*testing.T

	primary, standby *pgx.Conn
	pool             *pgxpool.Pool
	standbys         *session.Standbys
	history          *session.History
	conninfo         string // by which the standby receives
	said             chan string
}

// commit commits something, and returns a place in the log that lies after it.
func (p *pair) commit() (lsn uint64) {
	p.Helper()
	var text string
	_, err := p.pool.Exec(p.Context(), "SELECT pg_logical_emit_message(true, 'test', '')")
	if err == nil {
		err = p.pool.QueryRow(p.Context(), "SELECT pg_current_wal_flush_lsn()::text").Scan(&text)
	}
	if err == nil {
		lsn, err = session.ParseLSN(text)
	}
	if err != nil {
		p.Fatal(err)
	}
	return lsn
}

func (p *pair) has(lsn uint64) (has bool) {
	p.Helper()
	if err := p.standby.QueryRow(p.Context(), "SELECT pg_last_wal_receive_lsn() >= $1::pg_lsn", session.FormatLSN(lsn)).Scan(&has); err != nil {
		p.Fatal(err)
	}
	return has
}

// receive has the standby receive the log, or not.
func (p *pair) receive(on bool) {
	p.Helper()
	conninfo := ""
	if on {
		conninfo = p.conninfo
	}
	for _, statement := range []string{"ALTER SYSTEM SET primary_conninfo = " + quoted(conninfo), "SELECT pg_reload_conf()"} {
		if _, err := p.standby.Exec(p.Context(), statement); err != nil {
			p.Fatal(err)
		}
	}
	p.until(p.primary, "SELECT (count(*) = 1) = $1 FROM pg_stat_replication WHERE state = 'streaming'", on)
}

func (p *pair) until(conn *pgx.Conn, query string, args ...any) {
	p.Helper()
	if err := rig.Until(p.Context(), 30*time.Second, query, func() (holds bool, err error) {
		err = conn.QueryRow(p.Context(), query, args...).Scan(&holds)
		return holds, err
	}); err != nil {
		p.Fatal(err)
	}
}

// look looks at the hosts until the standby is asked.
func (p *pair) look() {
	p.Helper()
	for _, host := range p.standbys.Look(p.Context()) {
		if host.Err != nil {
			p.Fatal(host.Err)
		}
	}
}

// received begins to wait for a commit that the standby has not received.
func (p *pair) received(lsn uint64) <-chan error {
	p.Helper()
	done := make(chan error, 1)
	timeline := p.standbys.Timeline()
	go func() { done <- p.standbys.Received(p.Context(), timeline, lsn, time.Minute) }()
	for range 20 { // whoever does not wait has returned by then
		if p.has(lsn) {
			p.Fatal("the standby receives")
		}
	}
	select {
	case err := <-done:
		p.Fatalf("waiting for a commit that the standby has not received ended: %v", err)
	default:
	}
	return done
}

// hears waits for a line of the log.
func (p *pair) hears(start string) {
	p.Helper()
	for timeout := time.After(30 * time.Second); ; {
		select {
		case line := <-p.said:
			if strings.HasPrefix(line, start) {
				return
			}
		case <-timeout:
			p.Fatalf("the log does not say %q", start)
		}
	}
}

func quoted(s string) string { return "'" + s + "'" }

func newPair(t *testing.T) (p *pair, next *devpg.Server) {
	t.Helper()
	ctx := t.Context()
	former, err := devpg.Start(ctx, devpg.Config{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	stop := func(s *devpg.Server) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = s.Thaw()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { stop(former) })
	if next, err = former.StartStandby(ctx, "next"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(next) })
	var guard session.Guard
	p = &pair{T: t, said: make(chan string, 20), history: guard.History()}
	if p.pool, err = session.OpenPool(ctx, hosts(t, former, next), "public", session.PoolAdmin, 2, session.GuardedBy(&guard)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.pool.Close)
	for dsn, conn := range map[string]**pgx.Conn{former.DSN(): &p.primary, next.DSN(): &p.standby} {
		if *conn, err = pgx.Connect(ctx, dsn); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*conn).Close(context.WithoutCancel(ctx)) })
	}
	if err := p.standby.QueryRow(ctx, "SELECT replace(current_setting('primary_conninfo'), '''', '''''')").Scan(&p.conninfo); err != nil {
		t.Fatal(err)
	}
	p.standbys = session.NewStandbys(p.history, p.pool, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.MessageKey {
			p.said <- a.Value.String()
		}
		return a
	}})))
	t.Cleanup(p.standbys.Close)
	p.receive(true)
	return p, next
}

// TestReceivedWaitsForStandbys takes a standby through all that may become of it while somebody waits for it.
func TestReceivedWaitsForStandbys(t *testing.T) {
	t.Parallel()
	p, next := newPair(t)
	ctx := t.Context()
	at := func(lsn uint64, within time.Duration) {
		t.Helper()
		if err := p.standbys.Received(ctx, p.standbys.Timeline(), lsn, within); err != nil {
			t.Fatal(err)
		}
	}
	at(p.commit()+1<<30, time.Minute) // no standby is known, and none is waited for
	p.look()
	for range 50 {
		if lsn := p.commit(); true {
			if at(lsn, time.Minute); !p.has(lsn) {
				t.Fatal("waiting has ended before the standby has the commit")
			}
		}
	}

	// It answers and receives nothing, until it receives again.
	p.receive(false)
	lsn := p.commit()
	done := p.received(lsn)
	p.receive(true)
	if err := <-done; err != nil || !p.has(lsn) {
		t.Fatalf("waiting for a standby that receives again: %v, it has the commit: %t", err, p.has(lsn))
	}

	// It is late, and is waited for again once it has caught up.
	p.receive(false)
	lsn = p.commit()
	at(lsn, 50*time.Millisecond)
	p.hears("a standby is late")
	at(p.commit(), time.Hour)
	p.receive(true)
	p.hears("a standby has caught up")
	p.receive(false)
	done = p.received(p.commit())

	// It is frozen, and thaws.
	if err := next.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	p.hears("a standby does not answer")
	at(p.commit(), time.Hour)
	if err := next.Thaw(); err != nil {
		t.Fatal(err)
	}
	p.look()

	// It is promoted without the commit.
	done = p.received(p.commit())
	if err := next.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, session.ErrBehind) {
		t.Errorf("waiting for a standby that is promoted without the commit: %v", err)
	}
	if err := p.standbys.Received(ctx, 1, 0, time.Minute); !errors.Is(err, session.ErrBehind) {
		t.Errorf("what a former primary recorded: %v", err)
	}
	if err := p.standbys.Received(ctx, 2, 1<<60, time.Minute); err != nil {
		t.Errorf("the new primary has no standby, and is waited for: %v", err)
	}
}
