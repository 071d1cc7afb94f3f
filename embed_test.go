package oncegate_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate"
)

// An event is emitted together with the transaction that emits it, or not at all.
func TestEmitIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	w := open(t, func(cfg *oncegate.Config) {
		cfg.Sources = append(cfg.Sources, oncegate.Source{
			Name: "orders", Provider: "standard-webhooks", Emit: true, Routes: []oncegate.Route{{Name: "fulfil"}},
		})
	})
	attach(t, w.og, "ledger", book)
	attach(t, w.og, "fulfil", book)
	w.run(t)
	e := oncegate.Emission{Source: "orders", EventID: "order-1", Type: "order.paid", Payload: []byte(`{"total": 12}`)}
	emit := func(e oncegate.Emission, commit bool) {
		t.Helper()
		tx, err := w.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.og.Emit(t.Context(), tx, e); err != nil {
			t.Fatal(err)
		}
		if end := tx.Rollback; !commit {
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			return
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	gone := e
	gone.EventID = "order-0"
	emit(gone, false)
	emit(e, true)
	emit(e, true) // a duplicate
	w.await(t, 1, `SELECT count(*) FROM ledger`)
	w.await(t, 0, `SELECT count(*) FROM outbox`)
	if n := w.count(t, `SELECT count(*) FROM inbox_event WHERE event_id = 'order-1'`); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	if n := w.count(t, `SELECT count(*) FROM inbox_event WHERE event_id = 'order-0'`); n != 0 {
		t.Error("what was rolled back was emitted")
	}
	err := pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
		e.Source = "stripe"
		err := w.og.Emit(t.Context(), tx, e)
		if err == nil || !strings.Contains(err.Error(), `source "stripe" does not exist or is not open to it`) || !strings.Contains(err.Error(), "open are orders") {
			t.Errorf("emitting to a source that is not open: %v", err)
		}
		_, err = tx.Exec(t.Context(), "SELECT 1") // the transaction is still usable
		return err
	})
	if err != nil {
		t.Error(err)
	}
	w.halt(t)
}

func TestMetricsAreThePrograms(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := open(t, func(cfg *oncegate.Config) { cfg.Metrics = registry })
	attach(t, w.og, "ledger", book)
	w.run(t)
	w.acknowledged(t, "evt_1")
	w.await(t, 1, `SELECT count(*) FROM ledger`)
	names := map[string]bool{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		names[family.GetName()] = true
		if !strings.HasPrefix(family.GetName(), "oncegate_") {
			t.Errorf("the program's registry got %s", family.GetName())
		}
	}
	for _, want := range []string{"oncegate_attempts_total", "oncegate_build_info"} {
		if !names[want] {
			t.Errorf("the program's registry lacks %s", want)
		}
	}
	w.halt(t)
	if families, err = registry.Gather(); err != nil || len(families) > 0 {
		t.Errorf("%d families are left behind (%v)", len(families), err)
	}
}

func TestAdminAnswers(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	attach(t, w.og, "ledger", book)
	get := func(path string) *httptest.ResponseRecorder {
		t.Helper()
		answer := httptest.NewRecorder()
		w.og.Admin().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return answer
	}
	if got := get("/readyz"); got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(), "starting") {
		t.Errorf("before Run: %d %s", got.Code, got.Body)
	}
	if got := get("/healthz"); got.Code != http.StatusOK {
		t.Errorf("/healthz before Run: %d", got.Code)
	}
	w.run(t)
	if got := get("/readyz"); got.Code != http.StatusOK {
		t.Errorf("/readyz: %d %s", got.Code, got.Body)
	}
	if got := get("/metrics"); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), "oncegate_build_info") {
		t.Errorf("/metrics: %d", got.Code)
	}
	w.halt(t)
}

// A credential's secret may be a value. Its caller gets the same answer again for the same key.
func TestCallsOfACredential(t *testing.T) {
	t.Parallel()
	const token = "a secret of the clerk, which is long enough"
	w := open(t, func(cfg *oncegate.Config) {
		cfg.Sources = append(cfg.Sources, oncegate.Source{
			Name: "calls", Provider: "operation",
			Credentials: []oncegate.Credential{{Name: "clerk", Secrets: []oncegate.Secret{oncegate.Value(token), oncegate.Value(token + " too")}}},
			Routes:      []oncegate.Route{{Name: "ledger"}},
		})
	})
	attach(t, w.og, "ledger", book)
	w.run(t)
	call := func(token string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/calls", strings.NewReader(`{"amount":1}`))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Oncegate-Operation", "book")
		request.Header.Set("Idempotency-Key", `"order-1"`)
		answer := httptest.NewRecorder()
		w.og.Handler().ServeHTTP(answer, request)
		return answer.Code
	}
	if got := call("another secret of the clerk, also long"); got != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", got)
	}
	if got := call(token); got != http.StatusAccepted && got != http.StatusOK {
		t.Errorf("the first call: %d", got)
	}
	w.await(t, 1, `SELECT count(*) FROM ledger`)
	w.await(t, 1, `SELECT count(*) FROM effect WHERE state = 'done'`)
	if got := call(token + " too"); got != http.StatusOK {
		t.Errorf("the same call with the other secret: %d", got)
	}
	if n := w.count(t, `SELECT count(*) FROM ledger`); n != 1 {
		t.Errorf("booked %d times", n)
	}
	w.halt(t)
}
