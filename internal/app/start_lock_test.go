package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// Processes that start together on an empty database, while somebody keeps a table locked, wait and
// say for whom; all of them start once it is free. One that waits for too long gives up and says the same.
func TestAStartWaitsForLocks(t *testing.T) {
	t.Parallel()
	var content strings.Builder
	content.WriteString("targets: { nowhere: { kind: noop } }\nsources:\n")
	for i := range 500 {
		fmt.Fprintf(&content, "  hooks%d: { provider: standard-webhooks, secrets: [env:HOOKS], routes: [{ name: plain, target: nowhere }] }\n", i)
	}
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 3)
	cfg, err := config.Load(config.Options{Catalog: catalogtest.Load(t), File: "many.yml", Content: []byte(content.String()), Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "HOOKS=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Buffer
	var ahead atomic.Int64
	begin := func() error {
		a, err := app.New(t.Context(), app.Config{
			Settings: cfg, Logger: slog.New(slog.NewTextHandler(&log, nil)), Receive: true, Version: "test",
			Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		})
		if err != nil {
			return err
		}
		return a.Stop(context.WithoutCancel(t.Context()))
	}
	lock := func(table string) (letGo func()) {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SET LOCAL application_name = 'a stranger'; LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
			t.Fatal(err)
		}
		return func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
	}

	letGo := lock("source")
	defer letGo() // a test that fails must not wait for its own lock
	var starting sync.WaitGroup
	for range 6 {
		starting.Go(func() {
			if err := begin(); err != nil {
				t.Error(err)
			}
		})
	}
	inboxtest.UntilWithin(t, time.Minute, "a start says for whom it waits", func() bool {
		return strings.Contains(log.String(), "waiting for a lock at the start") && strings.Contains(log.String(), "a stranger, role ")
	})
	letGo()
	starting.Wait()

	letGo = lock("source")
	defer letGo()
	ended := make(chan error, 1)
	go func() { ended <- begin() }()
	inboxtest.UntilWithin(t, time.Minute, "it waits", func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'source'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
		return err == nil && waits
	})
	ahead.Store(int64(2 * time.Minute))
	err = <-ended
	if locked, ok := errors.AsType[*app.LockError](err); !ok || len(locked.Holders) != 1 || locked.Holders[0].Application != "a stranger" {
		t.Errorf("it ended with %v", err)
	}
}

// A start waits for each table that it needs before it serves, and exits 0 once the table is free.
func TestAStartWaitsForEachTable(t *testing.T) {
	t.Parallel()
	const content = `
targets: { nowhere: { kind: noop } }
sources:
  hooks:
    provider: standard-webhooks
    secrets: [env:HOOKS]
    labels: { order: body.order }
    routes: [{ name: plain, target: nowhere, key: [body.order], order: { mode: latest, key: body.order, number: body.n } }]
`
	for _, table := range []string{"database_history", "order_secret", "order_definition", "past_name", "key_recipe", "retention_class", "source", "route", "route_version", "node"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
			cfg, err := config.Load(config.Options{Catalog: catalogtest.Load(t), File: "one.yml", Content: []byte(content), Environ: []string{
				"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "HOOKS=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
				"ONCEGATE_KEYRING=1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= active",
			}})
			if err != nil {
				t.Fatal(err)
			}
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := tx.Exec(t.Context(), `LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
				t.Fatal(err)
			}
			var log logtest.Buffer
			ended := make(chan error, 1)
			go func() {
				a, err := app.New(t.Context(), app.Config{Settings: cfg, Logger: slog.New(slog.NewTextHandler(&log, nil)), Receive: true, Work: true, Version: "test"})
				if err == nil {
					err = a.Stop(context.WithoutCancel(t.Context()))
				}
				ended <- err
			}()
			inboxtest.UntilWithin(t, time.Minute, "the start waits for the table", func() bool {
				select {
				case err := <-ended:
					t.Fatalf("it ended with %v while the table was locked", err)
				default:
				}
				return strings.Contains(log.String(), "waiting for a lock at the start")
			})
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
