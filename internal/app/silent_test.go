package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

const silentFile = `
work: { lease: 6s, sweep_every: 1s }
targets:
  bank: { kind: forward, url: env:TARGET, idempotent: true, timeout: 2s }
  table: { kind: sql, call: silent_apply, timeout: 2s }
sources:
  agents:
    provider: operation
    secrets: [{ env: AGENT, name: agent }]
    routes:
      - { name: bank, target: bank }
      - { name: table, target: table }
`

// Connections that fall silent, without a reset and without an answer, hold up neither
// the gate nor the workers once new connections work: not the ones that were idle, nor
// those under way, nor River's own. A process that is held up says so.
func TestSilentConnectionsHoldUpNothingForLong(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	if _, err := pool.Exec(t.Context(), `CREATE FUNCTION silent_apply(document jsonb) RETURNS void LANGUAGE sql AS ''`); err != nil {
		t.Fatal(err)
	}
	proxy, dsn, err := rig.StartProxy(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	cat := catalogtest.Load(t)
	cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(silentFile), Environ: []string{
		"DATABASE_URL=" + dsn, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0",
		"AGENT=agent_secret", "TARGET=" + target.URL,
	}})
	if err != nil {
		t.Fatal(err)
	}
	a := newApp(t, cfg)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	o := &operated{a: a}
	call := func(key string) bool {
		return o.do(t, http.MethodPost, "agents", `{"a":1}`, "Oncegate-Operation", "charge", "Idempotency-Key", key).status/100 == 2
	}
	done := func(calls int) func() bool {
		return func() bool {
			var n int
			if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM effect WHERE state = 'done'`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n == 2*calls
		}
	}
	ready := func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.AdminAddr().String()+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client().Do(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	const before, rounds, each = 20, 2, 5
	for i := range before {
		if !call(fmt.Sprint("before-", i)) {
			t.Fatal("a call was not taken")
		}
	}
	inboxtest.Until(t, "the effects before", done(before))
	for round := range rounds {
		if n := proxy.Silence(); n == 0 {
			t.Fatal("no connection went silent")
		}
		began := time.Now()
		for i := range each {
			key := fmt.Sprint("round-", round, "-", i)
			inboxtest.Until(t, "the gate takes "+key, func() bool { return call(key) })
		}
		t.Logf("round %d: taken after %s", round, time.Since(began))
		inboxtest.Until(t, "the effects of the round", done(before+(round+1)*each))
		t.Logf("round %d: carried out after %s", round, time.Since(began))
		inboxtest.Until(t, "readiness", ready)
		t.Logf("round %d: ready after %s", round, time.Since(began))
	}
}
