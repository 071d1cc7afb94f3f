package app_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/history"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

const restoredFile = `
targets:
  once: { kind: forward, url: env:TARGET, idempotent: false }
sources:
  agents:
    provider: operation
    secrets: [{ env: AGENT, name: agent }]
    routes:
      - { name: once, types: [charge], target: once }
`

// TestACopyCarriesNothingOut until an operator declares what it is. What was recorded before the copy is not sent by itself then; what
// came since is.
func TestACopyCarriesNothingOut(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 100)
	target := effecttest.NewTarget(t, func(conn net.Conn, r effecttest.Request) {
		requests <- r.Body
		effecttest.Reply(conn, "200 OK", http.Header{"Connection": {"close"}}, "")
	})
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	cfg, err := config.Load(config.Options{Catalog: catalogtest.Load(t), File: "oncegate.yml", Content: []byte(restoredFile), Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "ONCEGATE_SWEEP_EVERY=1s",
		"AGENT=agent_secret", "TARGET=" + target.URL,
	}})
	if err != nil {
		t.Fatal(err)
	}
	// The database as it was backed up: an effect waits, and the cluster was another one.
	receiver, err := app.New(t.Context(), app.Config{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Receive: true, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	before := &operated{a: receiver, schema: schema, pool: pool}
	if err := before.a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	call := func(o *operated, key string) {
		t.Helper()
		if got := o.do(t, "POST", "agents", `{"n":"`+key+`"}`, "Oncegate-Operation", "charge", "Idempotency-Key", key); got.status/100 != 2 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	call(before, "old")
	if err := before.a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE database_history SET system_identifier = system_identifier + 1`); err != nil {
		t.Fatal(err)
	}

	o := &operated{a: newApp(t, cfg), schema: schema, pool: pool}
	if err := o.a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.a.Stop(context.WithoutCancel(t.Context())) })
	if err := o.a.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "oncegate history declare") {
		t.Errorf("readiness of a copy says %v", err)
	}
	call(o, "new") // it receives
	if len(requests) > 0 {
		t.Fatalf("the copy sent %q", <-requests)
	}
	if _, err := history.Declare(t.Context(), pool, history.Declaration{As: history.Restored, Actor: "ann", Reason: "restored on Monday"}); err != nil {
		t.Fatal(err)
	}
	timed, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case body := <-requests:
		if !strings.Contains(body, "new") {
			t.Fatalf("after the declaration %q was sent", body)
		}
	case <-timed.Done():
		t.Fatal("what came since the copy is not carried out")
	}
	var old inbox.ID
	var state, reason string
	read := `SELECT e.id, e.state, coalesce(e.reason, '') FROM effect e ORDER BY e.id LIMIT 1`
	if err := pool.QueryRow(t.Context(), read).Scan(&old, &state, &reason); err != nil || state != "indeterminate" || reason != "restored" {
		t.Fatalf("the effect from before the backup is %s (%s): %v", state, reason, err)
	}
	// An operator resolves it as any other.
	store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := decide.New(store).Resolve(t.Context(), decide.Resolve{Effect: old, As: decide.ResolveResend, Actor: "ann", Reason: "the bank knows nothing of it"}); err != nil {
		t.Fatal(err)
	}
	select {
	case body := <-requests:
		if !strings.Contains(body, "old") {
			t.Errorf("%q was sent, and not what was resolved", body)
		}
	case <-timed.Done():
		t.Fatal("what an operator sends again is not carried out")
	}
	if err := rig.Until(timed, time.Minute, "readiness", func() (bool, error) { return o.a.Ready(timed) == nil, nil }); err != nil {
		t.Error(errors.Join(err, o.a.Ready(t.Context())))
	}
}
