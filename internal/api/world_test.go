package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/trials/rig"
)

// limit is how long something may take at most on a busy machine.
const limit = 60 * time.Second

const (
	shopSecret  = "whsec_api_test"
	agentSecret = "agent_api_test"

	// canary is in everything that is content: payloads, headers, keys of sequences, what targets say, and addresses.
	canary = "canary7f3a"
)

// worldFile is the configuration of a world: the schema, the database and the target are filled in.
const worldFile = `
database: { url: %q, schema: %s }
targets:
  ledger: { kind: forward, url: "%[3]s/ledger", idempotent: true, keep_reply: true, allow: [127.0.0.0/8] }
  billing: { kind: forward, url: "%[3]s/refuse", idempotent: true, allow: [127.0.0.0/8] }
  charge: { kind: forward, url: "%[3]s/cut", idempotent: false, allow: [127.0.0.0/8] }
sources:
  shop:
    provider: stripe
    tenant: acme
    secrets: [env:API_TEST_SECRET]
    routes:
      - { name: ledger, types: ["invoice.*"], target: ledger }
      - { name: billing, types: ["refund.*"], target: billing }
      - { name: charge, types: ["charge.*"], target: charge }
      - { name: orders, types: ["order.*"], target: ledger, order: { mode: contiguous, key: body.order, number: body.seq, patience: 1h, on_gap: hold, no_key: hold, no_number: hold } }
      - { name: parcels, types: ["parcel.*"], target: billing, order: { mode: contiguous, key: body.order, number: body.seq, on_dead: block } }
  engine:
    provider: operation
    secrets: [{ env: API_TEST_AGENT, name: agent }]
    emit: true
    sessions: { longest: 1h }
    routes:
      - { name: charge, types: [charge], target: ledger }
`

// world is a running server on a database that holds something of everything.
type world struct {
	pool            *pgxpool.Pool
	private, public *httptest.Server
	tokens          map[string]string
	list, undecided string // an effect that became a list, and a stream that waits for a person
}

// newWorld starts a server, with a target that takes, one that refuses and one that does not answer.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{tokens: map[string]string{}}
	target := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/cut"):
			panic(http.ErrAbortHandler) // the request was read, and no answer comes
		case strings.HasPrefix(r.URL.Path, "/refuse"):
			http.Error(out, "no such account "+canary, http.StatusUnprocessableEntity)
		default:
			_, _ = io.WriteString(out, `{"said":"`+canary+`"}`)
		}
	}))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	file := filepath.Join(t.TempDir(), "oncegate.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, worldFile, url, schema, target.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("API_TEST_SECRET", shopSecret)
	t.Setenv("API_TEST_AGENT", agentSecret)
	cfg, err := oncegate.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	og, err := oncegate.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.public, w.private = httptest.NewServer(og.Handler()), httptest.NewServer(og.Admin())
	t.Cleanup(w.public.Close)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- og.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		w.private.Close()
	})
	select {
	case <-og.Started():
	case err := <-ended:
		t.Fatalf("Run: %v", err)
	case <-time.After(limit):
		t.Fatal("not started in time")
	}
	w.pool = inboxtest.Open(t, url, schema, "admin", 2)
	store := tokens.NewStore(w.pool, nil)
	for name, given := range map[string]tokens.New{
		"ADMIN": {Scopes: []string{"admin"}}, "READER": {Scopes: []string{"read-metadata"}}, "STRANGER": {Scopes: []string{"admin"}, Tenant: "blue"},
	} {
		given.Name, given.Actor, given.ExpiresAt = strings.ToLower(name), "test", time.Now().Add(time.Hour)
		text, _, err := store.Create(t.Context(), given)
		if err != nil {
			t.Fatal(err)
		}
		w.tokens[name] = text
	}
	return w
}

// environ is what the programme needs to know of the world.
func (w *world) environ(server string) []string {
	out := []string{"ONCEGATE_SERVER=" + server, "CANARY=" + canary, "LIST=" + w.list, "UNDECIDED_STREAM=" + w.undecided}
	for name, text := range w.tokens {
		out = append(out, name+"_TOKEN="+text)
	}
	return out
}

// post sends a request and wants its status to be one of success.
func (w *world) post(t *testing.T, address, body string, headers ...string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := (&http.Client{Timeout: limit}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode >= 300 && headers[0] != "Forged" {
		t.Fatalf("%s: %d %s, %v", address, response.StatusCode, text, err)
	}
}

// deliver sends an event of the shop's.
func (w *world) deliver(t *testing.T, id, kind, more string, forged bool) {
	t.Helper()
	now := time.Now()
	body := fmt.Sprintf(`{"id":%q,"object":"event","created":%d,"type":%q,"held":%q%s}`, id, now.Unix(), kind, canary, more)
	secret, mark := shopSecret, "Genuine"
	if forged {
		secret, mark = "whsec_another", "Forged"
	}
	w.post(t, w.public.URL+"/in/shop", body, mark, "yes", "X-Canary", canary, "Stripe-Signature", rig.StripeSignature(secret, now, []byte(body)))
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if tag, err := w.pool.Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v, %v", sql, tag, err)
	}
}

// until waits for a query to count n.
func (w *world) until(t *testing.T, n int, query string) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		var got int
		if err := w.pool.QueryRow(t.Context(), query).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d, want %d", query, got, n)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// fill brings something of everything into being: what a sender and an operator can, as they do; the rest in the tables.
func (w *world) fill(t *testing.T) {
	t.Helper()
	w.deliver(t, "evt_paid", "invoice.paid", `,"amount":1`, false)
	w.deliver(t, "evt_paid", "invoice.paid", `,"amount":2`, false) // a conflict
	w.deliver(t, "evt_paid", "invoice.paid", `,"amount":3`, false)
	w.deliver(t, "evt_erase", "invoice.paid", "", false)
	for i := range 4 {
		w.deliver(t, "evt_refund_"+strconv.Itoa(i), "refund.created", "", false)
	}
	for i := range 3 {
		w.deliver(t, "evt_charge_"+strconv.Itoa(i), "charge.succeeded", "", false)
	}
	w.deliver(t, "evt_order_1", "order.created", `,"order":"`+canary+`-o-7","seq":1`, false)
	w.deliver(t, "evt_order_3", "order.shipped", `,"order":"`+canary+`-o-7","seq":3`, false)
	w.deliver(t, "evt_order_x", "order.shipped", `,"order":"`+canary+`-o-8"`, false)
	w.deliver(t, "evt_keyless_1", "order.shipped", "", false)
	w.deliver(t, "evt_keyless_2", "order.shipped", "", false)
	w.deliver(t, "evt_parcel_1", "parcel.sent", `,"order":"`+canary+`-o-9","seq":1`, false)
	w.deliver(t, "evt_parcel_2", "parcel.sent", `,"order":"`+canary+`-o-9","seq":2`, false)
	w.deliver(t, "evt_forged_1", "invoice.paid", "", true)
	w.deliver(t, "evt_forged_2", "invoice.paid", "", true)
	agent := []string{"Authorization", "Bearer " + agentSecret, "Oncegate-Operation", "charge"}
	w.post(t, w.public.URL+"/in/engine", `{"amount":1,"held":"`+canary+`"}`, append(agent, "Idempotency-Key", "order-1", "Prefer", "wait=20")...)
	for _, run := range []string{"41", "42", "43"} {
		w.post(t, w.public.URL+"/in/engine/sessions", `{"run":"`+run+`"}`, agent...)
	}
	w.until(t, 5, `SELECT count(*) FROM effect WHERE state = 'dead'`)
	w.until(t, 3, `SELECT count(*) FROM effect WHERE state = 'indeterminate'`)
	w.until(t, 1, `SELECT count(*) FROM stream WHERE gap_since IS NOT NULL`)
	w.until(t, 1, `SELECT count(*) FROM stream WHERE blocked_by IS NOT NULL`)
	w.until(t, 2, `SELECT count(*) FROM refusal`)
	w.until(t, 3, `SELECT count(*) FROM effect WHERE state = 'held' AND reason IN ('sequence_key_missing', 'sequence_number_missing')`)
	w.until(t, 0, `SELECT count(*) FROM effect WHERE state IN ('pending', 'claimed', 'retry')`)

	// Three items of a list, and an effect each for two routes that are gone.
	for n := range 3 {
		w.exec(t, `INSERT INTO effect (id, event_id, route_id, item, state, idempotency_key, route_version, finished_at)
			SELECT $1, e.event_id, e.route_id, $2::int, 'done', e.idempotency_key || '/' || $2::int, 1, now()
			FROM effect e JOIN inbox_event v ON v.id = e.event_id WHERE v.event_id = 'evt_paid' AND e.item = 0`, inbox.NewID(time.Now()), n+1)
	}
	w.exec(t, `INSERT INTO route (source_id, name, target, kind, digest, updated_at)
		SELECT source_id, n, target, kind, digest, now() - interval '2 hours' FROM route, unnest('{gone,moved}'::text[]) n WHERE name = 'ledger'`)
	for _, route := range []string{"gone", "moved"} {
		w.exec(t, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, next_at)
			SELECT $1, v.id, r.id, 'pending', r.name, 1, now() + interval '1 hour' FROM inbox_event v, route r WHERE v.event_id = 'evt_paid' AND r.name = $2`, inbox.NewID(time.Now()), route)
	}
	w.exec(t, `INSERT INTO prune_run (id, ended_at, complete, removed, partitions, kept, left_behind, contended, include, actor)
		SELECT gen_random_uuid(), now(), n > 1, '{"effect": 5, "inbox_event": 2}', '{2026-01-01}', 1, 2, CASE n WHEN 1 THEN '{effects}'::text[] ELSE '{}' END, '{dead}', 'ann' FROM generate_series(1, 3) n`)
	w.exec(t, `INSERT INTO outbox (source, event_id, type, payload, refused_at, refusal) SELECT 'nobody', 'o-' || n, 'paid', convert_to($1, 'UTF8'), now(), 'source' FROM generate_series(1, 3) n`, `{"held":"`+canary+`"}`)
	for text, query := range map[*string]string{
		&w.list:      `SELECT e.id::text FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN route r ON r.id = e.route_id WHERE v.event_id = 'evt_paid' AND r.name = 'ledger' AND e.item = 0`,
		&w.undecided: `SELECT id::text FROM stream WHERE key_label LIKE '%-o-8'`,
	} {
		if err := w.pool.QueryRow(t.Context(), query).Scan(text); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	for range 3 {
		if _, _, err := logins.NewStore(logins.Config{Pool: w.pool}).Begin(t.Context(), logins.Opening{
			Grant: logins.Grant{Actor: "ann", Scopes: []string{"read-metadata"}}, Method: logins.ByLink,
		}); err != nil {
			t.Fatal(err)
		}
	}
	admin := []string{"Authorization", "Bearer " + w.tokens["ADMIN"]}
	for i := range 3 {
		text, err := json.Marshal(map[string]string{"address": fmt.Sprintf("%s-%d@example.com", canary, i), "reason": "they asked"})
		if err != nil {
			t.Fatal(err)
		}
		w.post(t, w.private.URL+"/api/v1/suppressions", string(text), admin...)
		w.post(t, w.private.URL+"/api/v1/replays", `{"filter":{"route":"billing"},"reason":"a plan that nobody ran"}`, admin...)
	}
}
