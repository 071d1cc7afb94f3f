package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers/catalog"
)

// house is a database with things of two tenants about which a person decides.
type house struct {
	pool    *pgxpool.Pool
	service *control.Service
	server  *httptest.Server
	sources map[string]registry.Registered

	deliveries deliveries
}

// deliveries counts what is delivered, and answers as the receiver does.
type deliveries struct {
	n    int
	last *http.Request
}

func (d *deliveries) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.n, d.last = d.n+1, r
	_, _ = io.WriteString(w, `{"event":"0199a000-0000-7000-8000-000000000000","status":"recorded"}`)
}

// settings are the configuration of the two tenants.
func settings(t *testing.T) *config.Config {
	t.Helper()
	known, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "oncegate.yml")
	text := "targets:\n  billing: { kind: forward, url: \"https://billing.example\", sign: [env:SECRET], idempotent: true, key_window: 24h }\nsources:\n"
	for _, tenant := range []string{"acme", "blue"} {
		text += "  " + tenant + ": { provider: standard-webhooks, tenant: " + tenant + ", secrets: [env:SECRET], routes: [{ name: ship, types: [\"*\"], target: billing }] }\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := config.Load(config.Options{File: file, Catalog: known, Environ: []string{
		"DATABASE_URL=postgres://nowhere/none", "SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The tokens of the tests name their access: scopes, and tenant if there is one.
func (h *house) authenticate(r *http.Request) (control.Access, error) {
	scope, tenant, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer")), "@")
	if scope == "" {
		return control.Access{Actor: "ann of nothing", Tenant: tenant}, nil
	}
	scopes, err := control.ParseScopes(strings.Split(scope, "+"))
	return control.Access{Actor: "ann of " + scope, Scopes: scopes, Tenant: tenant}, err
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{pool: inboxtest.Pool(t)}
	var sources []registry.Source
	for _, tenant := range []string{"acme", "blue"} {
		sources = append(sources, registry.Source{
			Name: tenant, Provider: "test", Class: "default", Tenant: tenant,
			Routes: []registry.Route{{Name: "bill", Target: "billing", Kind: "forward", Digest: []byte{1}}, {Name: "ship", Target: "stock", Kind: "forward", Digest: []byte{1}}},
		})
	}
	var err error
	if h.sources, err = registry.Register(t.Context(), h.pool, sources); err != nil {
		t.Fatal(err)
	}
	if h.service, err = control.NewService(control.Config{Pool: h.pool, Settings: settings(t), Deliver: &h.deliveries}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.service.Stop)
	handler, err := api.New(api.Config{Service: h.service, Logger: slog.New(slog.DiscardHandler), Authenticate: h.authenticate})
	if err != nil {
		t.Fatal(err)
	}
	h.server = httptest.NewServer(handler)
	t.Cleanup(h.server.Close)
	return h
}

func (h *house) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := h.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// effect makes an event of the tenant with an effect in the state.
func (h *house) effect(t *testing.T, tenant, route, state, reason string) (event, effect inbox.ID) {
	t.Helper()
	event, effect = inbox.NewID(time.Now()), inbox.NewID(time.Now())
	h.exec(t, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
		VALUES ($1, $2, $3, 'invoice.paid', sha256('x'), now(), 'ok', 'default', $1, 0, 0, 1, false, false)`, event, h.sources[tenant].ID, "evt_"+event.String())
	h.exec(t, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, attempts, send_started_at, next_at, finished_at)
		VALUES ($1, $2, $3, $4, 'key' || gen_random_uuid(), 1, nullif($5, ''), 2, now(), CASE WHEN $4 = 'pending' THEN now() END, CASE WHEN $4 = 'done' THEN now() END)`,
		effect, event, h.sources[tenant].Routes[route].ID, state, reason)
	return event, effect
}

func (h *house) state(t *testing.T, effect inbox.ID) (state string) {
	t.Helper()
	if err := h.pool.QueryRow(t.Context(), `SELECT state FROM effect WHERE id = $1`, effect).Scan(&state); err != nil {
		t.Fatal(err)
	}
	return state
}

// actors are those that the audit names for an action.
func (h *house) actors(t *testing.T, action string) (out []string) {
	t.Helper()
	if err := h.pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(DISTINCT actor), '{}') FROM audit WHERE action = $1`, action).Scan(&out); err != nil {
		t.Fatal(err)
	}
	return out
}
