package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// primary is a server of the test's own with the tables on it, and a pool of the superuser.
func primary(t *testing.T, schema string) (*devpg.Server, *pgxpool.Pool) {
	t.Helper()
	server, err := devpg.Start(t.Context(), devpg.Config{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	if err := migrations.Up(t.Context(), server.DSN(), schema); err != nil {
		t.Fatal(err)
	}
	return server, inboxtest.Open(t, server.DSN(), schema, session.PoolAdmin, 2)
}

// standbyOf is a standby that streams from the server.
func standbyOf(t *testing.T, server *devpg.Server) *devpg.Server {
	t.Helper()
	standby, err := server.StartStandby(t.Context(), "standby")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop(context.WithoutCancel(t.Context())) })
	return standby
}

// set changes a setting of the whole server.
func set(t *testing.T, pool *pgxpool.Pool, name, value string) {
	t.Helper()
	for _, sql := range []string{"SET default_transaction_read_only = off", "ALTER SYSTEM SET " + name + " = '" + value + "'", "SELECT pg_reload_conf()"} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

func quiet(t *testing.T) string {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	return target.URL
}

// untilCheck waits until a check says something with the words in it, or "ok".
func untilCheck(t *testing.T, a *app.App, check, words string) {
	t.Helper()
	inboxtest.Until(t, check+" saying "+words, func() bool {
		status, checks := readiness(t, a.AdminAddr().String())
		return strings.Contains(checks[check], words) && (status == http.StatusOK || words != "ok")
	})
}

// TestAFrozenStandbyIsNotReady: commits wait for it, and nobody delivers. One commit waits in the
// server, however long it takes, and the process is ready again by itself.
func TestAFrozenStandbyIsNotReady(t *testing.T) {
	t.Parallel()
	const schema = "oncegate"
	server, pool := primary(t, schema)
	standby := standbyOf(t, server)
	set(t, pool, "synchronous_standby_names", "standby")
	a, send := started(t, server.DSN(), schema, quiet(t))
	untilCheck(t, a, "commits", "ok")
	if status := send("evt_1"); status != http.StatusOK {
		t.Fatalf("a delivery was answered %d", status)
	}

	var receiver int
	there := inboxtest.Open(t, standby.DSN(), schema, session.PoolAdmin, 1)
	inboxtest.Until(t, "the standby streams", func() bool {
		return there.QueryRow(t.Context(), `SELECT pid FROM pg_stat_wal_receiver`).Scan(&receiver) == nil
	})
	if err := syscall.Kill(receiver, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	going := sync.OnceFunc(func() { _ = syscall.Kill(receiver, syscall.SIGCONT) })
	t.Cleanup(going)
	untilCheck(t, a, "commits", "waiting for a synchronous standby for 5s")
	untilCheck(t, a, "commits", "waiting for a synchronous standby for 1") // ten seconds and more
	var waiting int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oncegate gate' AND wait_event = 'SyncRep'`).Scan(&waiting); err != nil || waiting != 1 {
		t.Errorf("%d commits of the gate's connections wait (%v), want 1", waiting, err)
	}
	going()
	untilCheck(t, a, "commits", "ok")
	if status := send("evt_2"); status != http.StatusOK {
		t.Errorf("a delivery was answered %d", status)
	}
}

// TestAReadOnlyDatabaseIsNotReady, also when it becomes so while the process runs.
func TestAReadOnlyDatabaseIsNotReady(t *testing.T) {
	t.Parallel()
	const schema = "oncegate"
	server, pool := primary(t, schema)
	a, send := started(t, server.DSN(), schema, quiet(t))
	untilCheck(t, a, "database", "ok")
	set(t, pool, "default_transaction_read_only", "on")
	untilCheck(t, a, "database", inbox.ErrReadOnly.Error())
	if status := send("evt_1"); status != http.StatusServiceUnavailable {
		t.Errorf("a delivery was answered %d", status)
	}
	set(t, pool, "default_transaction_read_only", "off")
	untilCheck(t, a, "database", "ok")
	inboxtest.Until(t, "deliveries are taken", func() bool { return send("evt_1") == http.StatusOK })
}

// TestAFailoverIsNoticed: the address leads to a standby all at once. The process is not ready
// until the standby is promoted, and works on it then.
func TestAFailoverIsNoticed(t *testing.T) {
	t.Parallel()
	const schema = "oncegate"
	server, _ := primary(t, schema)
	standby := standbyOf(t, server)
	if _, err := app.New(t.Context(), app.Config{
		Settings: settings(t, standby.DSN(), schema, "http://127.0.0.1:1"), Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true,
	}); !errors.Is(err, inbox.ErrStandby) {
		t.Errorf("a process starts on a standby: %v", err)
	}
	s := startSwitch(t, server.DSN())
	a, send := started(t, s.dsn, schema, quiet(t))
	untilCheck(t, a, "database", "ok")
	if status := send("evt_1"); status != http.StatusOK {
		t.Fatalf("a delivery was answered %d", status)
	}
	there := inboxtest.Open(t, standby.DSN(), schema, session.PoolAdmin, 1)
	inboxtest.Until(t, "the standby has the event", func() bool {
		var n int
		return there.QueryRow(t.Context(), `SELECT count(*) FROM inbox_event`).Scan(&n) == nil && n == 1
	})
	s.lead(t, standby.DSN())
	untilCheck(t, a, "database", inbox.ErrStandby.Error())
	if status := send("evt_2"); status != http.StatusServiceUnavailable {
		t.Errorf("a delivery to a standby was answered %d", status)
	}
	if _, err := there.Exec(t.Context(), `SELECT pg_promote()`); err != nil {
		t.Fatal(err)
	}
	untilCheck(t, a, "database", "ok")
	inboxtest.Until(t, "deliveries are taken", func() bool { return send("evt_2") == http.StatusOK })
}

// switched is an address that can be led elsewhere.
type switched struct {
	dsn string

	mu    sync.Mutex
	to    string
	conns []net.Conn
}

func startSwitch(t *testing.T, dsn string) *switched {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &switched{}
	s.lead(t, dsn)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = listener.Addr().String()
	s.dsn = u.String()
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			server, err := net.Dial("tcp", s.to)
			s.conns = append(s.conns, client)
			if err == nil {
				s.conns = append(s.conns, server)
			}
			s.mu.Unlock()
			if err != nil {
				_ = client.Close()
				continue
			}
			for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
				go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			}
		}
	}()
	return s
}

// lead drops all connections; new ones lead to the server of dsn.
func (s *switched) lead(t *testing.T, dsn string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = u.Host
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

// TestAGateThatOnlyFailsIsNotReady: somebody has locked its table. When the lock is gone the
// process is ready again although nobody delivers.
func TestAGateThatOnlyFailsIsNotReady(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
	a, send := started(t, url, schema, quiet(t))
	untilCheck(t, a, "gate", "ok")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	for _, sql := range []string{"SET LOCAL idle_in_transaction_session_timeout = 0", "LOCK TABLE inbox_event"} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	inboxtest.Until(t, "the gate not being ready", func() bool {
		n++
		if status := send(fmt.Sprint("evt_", n)); status != http.StatusServiceUnavailable {
			t.Fatalf("a delivery was answered %d", status)
		}
		_, checks := readiness(t, a.AdminAddr().String())
		return strings.Contains(checks["gate"], "deliveries have not been recorded for")
	})
	untilCheck(t, a, "commits", "55P03")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	untilCheck(t, a, "commits", "ok")
	untilCheck(t, a, "gate", "ok")
	if status := send("evt_after"); status != http.StatusOK {
		t.Errorf("a delivery was answered %d", status)
	}
}

// TestTablesThatWereMadeAnewAskForARestart: what is recorded under sources that are registered
// nowhere would be found by nobody.
func TestTablesThatWereMadeAnewAskForARestart(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	a, send := started(t, url, schema, quiet(t))
	untilCheck(t, a, "schema", "ok")
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
	inboxtest.Until(t, "the tables being dropped", func() bool {
		// The process reads several tables in one statement, so the two can wait for each other. A person would try again.
		_, err := pool.Exec(t.Context(), "DROP SCHEMA "+schema+" CASCADE")
		pg, answered := errors.AsType[*pgconn.PgError](err)
		if err != nil && (!answered || pg.Code != "40P01") {
			t.Fatal(err)
		}
		return err == nil
	})
	if err := migrations.Up(t.Context(), url, schema); err != nil {
		t.Fatal(err)
	}
	untilCheck(t, a, "schema", "were created again")
	inboxtest.Until(t, "nothing being recorded", func() bool { return send("evt_1") == http.StatusServiceUnavailable })
	again, send := started(t, url, schema, quiet(t))
	untilCheck(t, again, "schema", "ok")
	if status := send("evt_1"); status != http.StatusOK {
		t.Errorf("a delivery to the process that was started after it was answered %d", status)
	}
}
