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
	lock := func() (letGo func()) {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SET LOCAL application_name = 'a stranger'; LOCK TABLE source IN ACCESS EXCLUSIVE MODE`); err != nil {
			t.Fatal(err)
		}
		return func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
	}

	letGo := lock()
	var starting sync.WaitGroup
	for range 6 {
		starting.Go(func() {
			if err := begin(); err != nil {
				t.Error(err)
			}
		})
	}
	inboxtest.Until(t, "a start says for whom it waits", func() bool {
		return strings.Contains(log.String(), "waiting for a lock at the start") && strings.Contains(log.String(), "a stranger, role ")
	})
	letGo()
	starting.Wait()

	letGo = lock()
	defer letGo()
	ended := make(chan error, 1)
	go func() { ended <- begin() }()
	inboxtest.Until(t, "it waits", func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'source'::regclass)`).Scan(&waits)
		return err == nil && waits
	})
	ahead.Store(int64(2 * time.Minute))
	err = <-ended
	if locked, ok := errors.AsType[*app.LockError](err); !ok || len(locked.Holders) != 1 || locked.Holders[0].Application != "a stranger" {
		t.Errorf("it ended with %v", err)
	}
}
