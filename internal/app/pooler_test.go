package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/devpg/devpgtest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// ignoring is what people put into PgBouncer's configuration when it refuses a client: everything
// named here is then dropped without a word.
const ignoring = "search_path,synchronous_commit,lock_timeout,statement_timeout,idle_in_transaction_session_timeout,options," +
	"client_connection_check_interval,tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count,tcp_user_timeout," +
	"enable_seqscan,enable_hashjoin,enable_mergejoin,enable_bitmapscan,jit,plan_cache_mode,random_page_cost"

// asynchronous is a server of the test's own whose database commits without waiting for the disk
// and resolves names elsewhere, unless a session asks for something else.
func asynchronous(t *testing.T) *devpg.Server {
	t.Helper()
	server, err := devpg.Start(t.Context(), devpg.Config{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	pool, err := pgxpool.New(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, sql := range []string{"SET synchronous_commit = off", "SET search_path = public", "SET plan_cache_mode = force_custom_plan"} {
		if _, err := pool.Exec(t.Context(), "ALTER DATABASE oncegate "+sql); err != nil {
			t.Fatal(err)
		}
	}
	return server
}

// started runs a process on the database until the test ends.
func started(t *testing.T, url, schema, target string) (*app.App, func(id string) int) {
	t.Helper()
	return startedWith(t, url, schema, target, inbox.DurabilityServer)
}

// startedWith is started with a durability.
func startedWith(t *testing.T, url, schema, target string, durability inbox.Durability) (*app.App, func(id string) int) {
	t.Helper()
	cfg := settings(t, url, schema, target)
	cfg.Database.Durability = durability
	a := newApp(t, cfg)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return a, func(id string) int { return deliver(t, cfg, a, id) }
}

// TestAPoolerInSessionModeChangesNothing: it drops what the startup message asks for, and the
// database asks for the opposite; the tables are where they were asked for, every pool's sessions
// are what they must be, and effects are carried out, woken by a notification.
func TestAPoolerInSessionModeChangesNothing(t *testing.T) {
	t.Parallel()
	server := asynchronous(t)
	for name, extra := range map[string]map[string]string{
		"as it comes":        {},
		"ignoring":           {"ignore_startup_parameters": ignoring},
		"in turn":            {"server_round_robin": "1"},
		"resetting all ways": {"server_reset_query_always": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pooler := devpgtest.Pooler(t, devpg.PoolerConfig{Server: server.DSN(), Settings: extra})
			schema := "pooled_" + strings.ReplaceAll(strings.ToLower(name), " ", "_")
			if err := migrations.Up(t.Context(), pooler.DSN(), schema); err != nil {
				t.Fatal(err)
			}
			direct := inboxtest.Open(t, server.DSN(), schema, session.PoolAdmin, 2)
			var elsewhere int
			if err := direct.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&elsewhere); err != nil || elsewhere != 0 {
				t.Errorf("%d tables (%v) are in public", elsewhere, err)
			}
			for _, role := range []session.PoolRole{session.PoolGate, session.PoolWork, session.PoolQueue, session.PoolAdmin} {
				var commits, path, locks string
				pool := inboxtest.Open(t, pooler.DSN(), schema, role, 1)
				if err := pool.QueryRow(t.Context(), `SELECT current_setting('synchronous_commit'), current_setting('search_path'),
					current_setting('lock_timeout')`).Scan(&commits, &path, &locks); err != nil {
					t.Fatal(err)
				}
				if commits != "on" || path != schema || locks == "0" {
					t.Errorf("the %s pool has synchronous_commit %s, search_path %s, lock_timeout %s", role, commits, path, locks)
				}
			}
			var got atomic.Int64
			target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
			t.Cleanup(target.Close)
			a, send := started(t, pooler.DSN(), schema, target.URL)
			const events = 20
			for i := range events {
				if status := send(fmt.Sprint("evt_", i)); status != http.StatusOK {
					t.Fatalf("delivery %d was answered %d", i, status)
				}
			}
			inboxtest.Until(t, "the effects are carried out", func() bool { return got.Load() >= events })
			if status, checks := readiness(t, a.AdminAddr().String()); status != http.StatusOK {
				t.Errorf("not ready: %v", checks)
			}
		})
	}
}

// TestTheQueueIsWokenThroughASession: LISTEN keeps its connection, so that a job starts long before
// the next time that the process would ask.
func TestTheQueueIsWokenThroughASession(t *testing.T) {
	t.Parallel()
	server := asynchronous(t)
	pooler := devpgtest.Pooler(t, devpg.PoolerConfig{Server: server.DSN()})
	listener := inboxtest.Open(t, pooler.DSN(), "public", session.PoolQueue, 1)
	conn, err := listener.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "LISTEN jobs"); err != nil {
		t.Fatal(err)
	}
	other := inboxtest.Open(t, pooler.DSN(), "public", session.PoolQueue, 1)
	for i := range 20 {
		if _, err := other.Exec(t.Context(), "SELECT pg_notify('jobs', $1)", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		timed, cancel := context.WithTimeout(t.Context(), time.Minute)
		n, err := conn.Conn().WaitForNotification(timed)
		cancel()
		if err != nil || n.Payload != fmt.Sprint(i) {
			t.Fatalf("notification %d: got %v, %v", i, n, err)
		}
	}
}

// TestSharedSessionsAreRefusedAtTheStart: by whatever rule the pooler picks its connections, with
// one of them or many, and when several processes start at once.
func TestSharedSessionsAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	server := asynchronous(t)
	const schema = "oncegate"
	if err := migrations.Up(t.Context(), server.DSN(), schema); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"transaction", "statement"} {
		for _, extra := range []map[string]string{
			{}, {"server_round_robin": "1"}, {"default_pool_size": "1"}, {"default_pool_size": "2", "server_round_robin": "1"},
			{"min_pool_size": "20", "server_round_robin": "1"}, {"server_reset_query_always": "1"}, {"ignore_startup_parameters": ignoring},
		} {
			t.Run(fmt.Sprint(mode, extra), func(t *testing.T) {
				t.Parallel()
				pooler := devpgtest.Pooler(t, devpg.PoolerConfig{Server: server.DSN(), Mode: mode, Settings: extra})
				const processes, rounds = 3, 10
				for round := range rounds {
					var together sync.WaitGroup
					for range processes {
						together.Go(func() {
							var guard session.Guard
							pool, err := session.OpenPool(t.Context(), pooler.DSN(), schema, session.PoolAdmin, 4, session.GuardedBy(&guard))
							if err != nil {
								t.Error(err)
								return
							}
							defer pool.Close()
							if err := guard.Prove(t.Context(), pool); !errors.Is(err, session.ErrShared) {
								t.Errorf("round %d: got %v, want %v", round, err, session.ErrShared)
							} else if _, err := pool.Exec(t.Context(), "SELECT 1"); !errors.Is(err, session.ErrShared) {
								t.Errorf("round %d: the pool works on with %v", round, err)
							}
						})
					}
					together.Wait()
				}
				_, err := app.New(t.Context(), app.Config{
					Settings: settings(t, pooler.DSN(), schema, "http://127.0.0.1:1"), Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true,
				})
				if !errors.Is(err, session.ErrShared) {
					t.Errorf("a process starts: %v", err)
				}
				if err := migrations.Up(t.Context(), pooler.DSN(), "other"); !errors.Is(err, session.ErrShared) {
					t.Errorf("migrate up: %v", err)
				}
			})
		}
	}
}

// TestNoFalseAlarmInSessionMode: processes come and go at once, connections are closed and their
// server connections handed to the next client.
func TestNoFalseAlarmInSessionMode(t *testing.T) {
	t.Parallel()
	server := asynchronous(t)
	for _, extra := range []map[string]string{{"default_pool_size": "12"}, {"server_round_robin": "1"}, {"server_reset_query": ""}} {
		t.Run(fmt.Sprint(extra), func(t *testing.T) {
			t.Parallel()
			pooler := devpgtest.Pooler(t, devpg.PoolerConfig{Server: server.DSN(), Settings: extra})
			var together sync.WaitGroup
			var proved atomic.Int64
			for range 4 {
				together.Go(func() {
					for range 15 {
						var guard session.Guard
						pool, err := session.OpenPool(t.Context(), pooler.DSN(), "public", session.PoolAdmin, 3, session.GuardedBy(&guard))
						if err != nil {
							t.Error(err)
							return
						}
						for range 3 {
							switch err := guard.Prove(t.Context(), pool); {
							case errors.Is(err, session.ErrShared):
								t.Error("session mode is taken for transaction mode")
							case err == nil:
								proved.Add(1)
							}
							pool.Reset()
						}
						pool.Close()
					}
				})
			}
			together.Wait()
			if proved.Load() == 0 {
				t.Error("nothing was proved")
			}
		})
	}
}

// TestAReloadOfThePoolerIsNoticed: a process that runs is not ready and records nothing as soon as
// its sessions are shared, and works again by itself when they are not.
func TestAReloadOfThePoolerIsNoticed(t *testing.T) {
	t.Parallel()
	server := asynchronous(t)
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	for _, robin := range []string{"0", "1"} {
		t.Run("server_round_robin="+robin, func(t *testing.T) {
			t.Parallel()
			pooler := devpgtest.Pooler(t, devpg.PoolerConfig{Server: server.DSN(), Settings: map[string]string{"server_round_robin": robin}})
			schema := "reload_" + robin
			if err := migrations.Up(t.Context(), pooler.DSN(), schema); err != nil {
				t.Fatal(err)
			}
			a, send := started(t, pooler.DSN(), schema, target.URL)
			if status := send("evt_before"); status != http.StatusOK {
				t.Fatalf("a delivery was answered %d", status)
			}
			if err := pooler.Reload(t.Context(), "transaction"); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			inboxtest.Until(t, "not being ready", func() bool {
				status, checks := readiness(t, a.AdminAddr().String())
				return status == http.StatusServiceUnavailable && checks["database"] == session.ErrShared.Error()
			})
			t.Logf("not ready %s after the reload", time.Since(began))
			if status := send("evt_during"); status != http.StatusServiceUnavailable {
				t.Errorf("a delivery over a shared session was answered %d", status)
			}
			if err := pooler.Reload(t.Context(), "session"); err != nil {
				t.Fatal(err)
			}
			began = time.Now()
			inboxtest.Until(t, "being ready again", func() bool {
				status, _ := readiness(t, a.AdminAddr().String())
				return status == http.StatusOK
			})
			t.Logf("ready again after %s", time.Since(began))
			inboxtest.Until(t, "deliveries are taken", func() bool { return send("evt_during") == http.StatusOK })
		})
	}
}
