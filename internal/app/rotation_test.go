package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// The secret of a credential is replaced by a rolling restart while calls run: from secrets, as it
// was written before, over two secrets at once, to the new one alone. The same call is charged
// once, and everybody gets its result.
func TestRotationChargesOnce(t *testing.T) {
	t.Parallel()
	var charges atomic.Int64
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges.Add(1)
		_, _ = w.Write([]byte(`{"charge":"ch_1"}`))
	}))
	t.Cleanup(bank.Close)
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	cat := catalogtest.Load(t)
	start := func(who string) *operated {
		t.Helper()
		cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(`
targets: { bank: { kind: forward, url: env:BANK, idempotent: true, keep_reply: true } }
sources: { agents: { provider: operation, ` + who + `, routes: [{ name: bank, target: bank }] } }
`), Environ: []string{
			"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "ONCEGATE_SWEEP_EVERY=1s",
			"FIRST=first_secret", "SECOND=second_secret", "BANK=" + bank.URL,
		}})
		if err != nil {
			t.Fatal(err)
		}
		o := &operated{schema: schema, pool: pool, a: newApp(t, cfg)}
		if err := o.a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return o
	}
	stop := func(o *operated) {
		t.Helper()
		if err := o.a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	call := func(o *operated, secret string) reply {
		return o.do(t, "POST", "agents", `{"amount":1}`, "Idempotency-Key", "run-42/step-3", "Authorization", "Bearer "+secret, "Prefer", "wait=20")
	}

	before := start(`secrets: [{ env: FIRST, name: planner }]`)
	result := call(before, "first_secret")
	if result.status != http.StatusOK || !strings.Contains(result.body, `"status":"done"`) {
		t.Fatalf("%d %s", result.status, result.body)
	}
	during := start(`credentials: { planner: { secrets: [env:SECOND, { env: FIRST, until: 2099-01-01 }] } }`)
	var calls sync.WaitGroup
	for range 4 {
		for _, c := range []struct {
			o      *operated
			secret string
		}{{before, "first_secret"}, {during, "first_secret"}, {during, "second_secret"}} {
			calls.Go(func() {
				for range 5 {
					if r := call(c.o, c.secret); r.status != http.StatusOK || r.body != result.body {
						t.Errorf("during the rotation, with %s: %d %s, want the stored result %s", c.secret, r.status, r.body, result.body)
					}
				}
			})
		}
	}
	calls.Wait()
	stop(before)
	after := start(`credentials: { planner: { secrets: [env:SECOND] } }`)
	stop(during)
	t.Cleanup(func() { stop(after) })
	if r := call(after, "second_secret"); r.status != http.StatusOK || r.body != result.body {
		t.Errorf("after the rotation: %d %s, want the stored result %s", r.status, r.body, result.body)
	}
	if r := call(after, "first_secret"); r.status != http.StatusUnauthorized {
		t.Errorf("the secret that was replaced: %d, want 401", r.status)
	}
	if n := charges.Load(); n != 1 {
		t.Errorf("the bank was asked %d times, want once", n)
	}
	var keys []string
	if err := pool.QueryRow(t.Context(), `SELECT array_agg(event_id) FROM inbox_event`).Scan(&keys); err != nil || len(keys) != 1 || keys[0] != "planner:charge:run-42/step-3" {
		t.Errorf("the events are %v (%v), want planner:charge:run-42/step-3 alone", keys, err)
	}
}
