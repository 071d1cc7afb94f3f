package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/trials/servertest"
	"github.com/oncegate/oncegate/providers/listing/listingtest"
)

const (
	shopSecret  = "whsec_api_test"
	agentSecret = "agent_api_test"

	// canary is in everything that is content: payloads, headers, keys of sequences, what targets say, and addresses.
	canary = "canary7f3a"
)

// worldFile is the configuration of a world: the database, the schema and the target are filled in.
const worldFile = `
database: { url: %[1]q, schema: %[2]s }
notifications: { source: operators, kinds: [undeclared] }
targets:
  ledger: { kind: forward, url: "%[3]s/ledger", idempotent: true, keep_reply: true, allow: [127.0.0.0/8] }
  billing: { kind: forward, url: "%[3]s/refuse", idempotent: true, allow: [127.0.0.0/8] }
  charge: { kind: forward, url: "%[3]s/cut", test_url: "%[3]s/test", idempotent: false, allow: [127.0.0.0/8] }
sources:
  operators: { provider: standard-webhooks, emit: true, routes: [{ name: told, target: ledger }] }
  shop:
    provider: stripe
    tenant: acme
    secrets: ["file:%[4]s/shop-secret"]
    reconcile: { credential: "file:%[4]s/list-key", base: "LIST_OF_EVENTS" }
    routes:
      - { name: ledger, types: ["invoice.*"], target: ledger }
      - { name: billing, types: ["refund.*"], target: billing }
      - { name: charge, types: ["charge.*"], target: charge }
      - { name: orders, types: ["order.*"], target: ledger, order: { mode: contiguous, key: body.order, number: body.seq, patience: 1h, on_gap: hold, no_key: hold, no_number: hold } }
      - { name: parcels, types: ["parcel.*"], target: billing, order: { mode: contiguous, key: body.order, number: body.seq, on_dead: block } }
  engine:
    provider: operation
    secrets: [{ file: "%[4]s/agent-secret", name: agent }]
    emit: true
    sessions: { longest: 1h }
    routes:
      - { name: charge, types: [charge], target: ledger }
`

// world is a running server on a database that holds something of everything.
type world struct {
	*servertest.Server
	tokens          map[string]string
	list, undecided string // an effect that became a list, and a stream that waits for a person
}

// newWorld starts a server, with a target that takes, one that refuses and one that does not answer.
func newWorld(t *testing.T) *world {
	t.Helper()
	list := httptest.NewServer(listingtest.Senders()[0].Handler(&listingtest.API{}))
	t.Cleanup(list.Close)
	s := servertest.Start(t, servertest.Config{
		File:    strings.Replace(worldFile, "LIST_OF_EVENTS", list.URL, 1),
		Secrets: map[string]string{"shop-secret": shopSecret, "agent-secret": agentSecret, "list-key": listingtest.Key},
		Reply:   `{"said":"` + canary + `"}`, Refusal: "no such account " + canary,
	})
	return &world{Server: s, tokens: map[string]string{
		"ADMIN": s.Token(t, "admin", "", "admin"), "READER": s.Token(t, "reader", "", "read-metadata"), "STRANGER": s.Token(t, "stranger", "blue", "admin"),
	}}
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
	if status, text := w.Post(t, address, body, headers...); status >= http.StatusMultipleChoices {
		t.Fatalf("%s: %d %s", address, status, text)
	}
}

// deliver sends an event of the shop's.
func (w *world) deliver(t *testing.T, id, kind, more string, forged bool) {
	t.Helper()
	body := fmt.Sprintf(`{"id":%q,"object":"event","created":%d,"type":%q,"held":%q%s}`, id, time.Now().Unix(), kind, canary, more)
	secret, want := shopSecret, http.StatusOK
	if forged {
		secret, want = "whsec_another", http.StatusUnauthorized
	}
	if status, text := w.Deliver(t, "shop", secret, body, "X-Canary", canary); status != want {
		t.Fatalf("%s: %d %s, want %d", id, status, text, want)
	}
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if tag, err := w.Pool.Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v, %v", sql, tag, err)
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
	w.post(t, w.Public.URL+"/in/engine", `{"amount":1,"held":"`+canary+`"}`, append(agent, "Idempotency-Key", "order-1", "Prefer", "wait=20")...)
	for _, run := range []string{"41", "42", "43"} {
		w.post(t, w.Public.URL+"/in/engine/sessions", `{"run":"`+run+`"}`, agent...)
	}
	w.Until(t, 5, `SELECT count(*) FROM effect WHERE state = 'dead'`)
	w.Until(t, 3, `SELECT count(*) FROM effect WHERE state = 'indeterminate'`)
	w.Until(t, 1, `SELECT count(*) FROM stream WHERE gap_since IS NOT NULL`)
	w.Until(t, 1, `SELECT count(*) FROM stream WHERE blocked_by IS NOT NULL`)
	w.Until(t, 2, `SELECT count(*) FROM refusal`)
	w.Until(t, 3, `SELECT count(*) FROM effect WHERE state = 'held' AND reason IN ('sequence_key_missing', 'sequence_number_missing')`)
	w.Until(t, 0, `SELECT count(*) FROM effect WHERE state IN ('pending', 'claimed', 'retry')`)

	// Three items of a list, of which one is due tomorrow, and an effect each for two routes that are gone.
	for n := range 3 {
		w.exec(t, `INSERT INTO effect (id, event_id, route_id, item, state, idempotency_key, route_version, finished_at, next_at)
			SELECT $1, e.event_id, e.route_id, $2::int, CASE WHEN $2 = 3 THEN 'pending' ELSE 'done' END, e.idempotency_key || '/' || $2::int, 1,
				CASE WHEN $2 < 3 THEN now() END, CASE WHEN $2 = 3 THEN now() + interval '1 day' END
			FROM effect e JOIN inbox_event v ON v.id = e.event_id WHERE v.event_id = 'evt_paid' AND e.item = 0`, inbox.NewID(time.Now()), n+1)
	}
	w.exec(t, `INSERT INTO route (source_id, name, target, kind, digest, updated_at)
		SELECT source_id, n, target, kind, digest, now() - interval '2 hours' FROM route, unnest('{gone,moved}'::text[]) n WHERE name = 'ledger'`)
	for _, route := range []string{"gone", "moved"} {
		w.exec(t, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, next_at)
			SELECT $1, v.id, r.id, 'pending', r.name, 1, now() + interval '1 hour' FROM inbox_event v, route r WHERE v.event_id = 'evt_paid' AND r.name = $2`, inbox.NewID(time.Now()), route)
	}
	for n := range 3 { // when a pass began is in its id
		w.exec(t, `INSERT INTO prune_run (id, ended_at, complete, removed, partitions, kept, left_behind, contended, include, actor)
			VALUES ($1, now(), $2::int > 0, '{"effect": 5, "inbox_event": 2}', '{2026-01-01}', 1, 2, CASE $2::int WHEN 0 THEN '{effects}'::text[] ELSE '{}' END, '{dead}', 'ann')`, inbox.NewID(time.Now()), n)
	}
	w.exec(t, `INSERT INTO outbox (source, event_id, type, payload, refused_at, refusal) SELECT 'nobody', 'o-' || n, 'paid', convert_to($1, 'UTF8'), now(), 'source' FROM generate_series(1, 3) n`, `{"held":"`+canary+`"}`)
	for text, query := range map[*string]string{
		&w.list:      `SELECT e.id::text FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN route r ON r.id = e.route_id WHERE v.event_id = 'evt_paid' AND r.name = 'ledger' AND e.item = 0`,
		&w.undecided: `SELECT id::text FROM stream WHERE key_label LIKE '%-o-8'`,
	} {
		if err := w.Pool.QueryRow(t.Context(), query).Scan(text); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	for range 3 {
		if _, _, err := logins.NewStore(logins.Config{Pool: w.Pool}).Begin(t.Context(), logins.Opening{
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
		w.post(t, w.Private.URL+"/api/v1/suppressions", string(text), admin...)
		w.post(t, w.Private.URL+"/api/v1/replays", `{"filter":{"route":"billing"},"reason":"a plan that nobody ran"}`, admin...)
	}
}
