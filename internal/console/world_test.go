package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/trials/servertest"
)

// limit is how long something may take at most on a busy machine.
const limit = servertest.Limit

// world is an Oncegate with a target that does as it is told.
type world struct {
	server  *servertest.Server
	pool    *pgxpool.Pool
	private *httptest.Server
	mended  *atomic.Bool // from when on the target takes what it refused
	token   string       // of an administrator
	secret  string       // of the source stripe
}

const stripeSecret = "whsec_console_test"

// worldFile is the configuration of a world: the database, the schema, the target and the directory of the secret are filled in.
const worldFile = `
database: { url: %[1]q, schema: %[2]s }
console: { redact: [email] }
targets:
  ledger: { kind: forward, url: "%[3]s/ledger", idempotent: true, allow: [127.0.0.0/8], retry: { attempts: 2, base: 10ms, max: 20ms } }
  billing: { kind: forward, url: "%[3]s/refuse", idempotent: true, allow: [127.0.0.0/8], retry: { attempts: 2, base: 10ms, max: 20ms } }
  charge: { kind: forward, url: "%[3]s/cut", idempotent: false, allow: [127.0.0.0/8] }
sources:
  stripe:
    provider: stripe
    secrets: ["file:%[4]s/stripe-secret"]
    labels: { order: body.order }
    routes:
      - { name: ledger, types: ["invoice.*"], target: ledger }
      - { name: billing, types: ["refund.*"], target: billing }
      - { name: charge, types: ["charge.*"], target: charge }
      - { name: orders, types: ["order.*"], target: ledger, order: { mode: contiguous, key: body.order, number: body.seq, patience: 1h, on_gap: hold, on_dead: block } }
  quiet:
    provider: stripe
    secrets: ["file:%[4]s/stripe-secret"]
`

// newWorld starts one, with a route in order, a target that refuses, and a target that does not answer.
func newWorld(t *testing.T) *world {
	t.Helper()
	s := servertest.Start(t, servertest.Config{
		File: worldFile, Secrets: map[string]string{"stripe-secret": stripeSecret},
		Refusal: `no such account <script>window.attacked=1</script>`,
	})
	return &world{server: s, pool: s.Pool, private: s.Private, mended: &s.TargetMended, token: s.Token(t, "admin", "", "admin"), secret: stripeSecret}
}

// deliver sends a delivery of stripe's and wants the status.
func (w *world) deliver(t *testing.T, body string, status int) {
	t.Helper()
	secret := w.secret
	if status == http.StatusUnauthorized {
		secret = "whsec_another"
	}
	if got, text := w.server.Deliver(t, "stripe", secret, body); got != status {
		t.Fatalf("delivery: %d %s, want %d", got, text, status)
	}
}

func event(id, kind, more string) string {
	return fmt.Sprintf(`{"id":%q,"object":"event","created":%d,"type":%q%s}`, id, time.Now().Unix(), kind, more)
}

// until waits for a query to count n.
func (w *world) until(t *testing.T, n int, query string) {
	t.Helper()
	w.server.Until(t, n, query)
}

// hostile is a payload in which everything that a sender chooses is an attack.
func hostile(id string) string {
	return event(id, `invoice.\"><script>window.attacked=1</script>`, `,"email":"ada@example.com","data":{"<img src=x onerror=window.attacked=1>":"\"><script>window.attacked=1</script>","bidi":"`+
		"\u202egnp.exe\u2066"+`","nul":"\u0000","amount":9007199254740993,"url":"javascript:window.attacked=1","long":"`+strings.Repeat("<b>", 100_000)+`"}`)
}

// fill brings one of everything into being.
func (w *world) fill(t *testing.T) {
	t.Helper()
	// The payload is made once: with the second of each delivery in it, what came again would be another payload.
	paid := event("evt_paid", "invoice.paid", `,"data":{"object":{"id":"in_1","amount":9007199254740993,"currency":"eur","email":"ada@example.com"}}`)
	w.deliver(t, paid, 200)
	w.deliver(t, paid, 200)
	w.deliver(t, strings.NewReplacer("9007199254740993", "1", "ada@", "eve@").Replace(paid), 200)
	for i := range 3 {
		w.deliver(t, event(fmt.Sprintf("evt_refund_%d", i), "refund.created", `,"data":{"object":{"id":"re_1"}}`), 200)
	}
	w.deliver(t, event("evt_charge", "charge.succeeded", ""), 200)
	w.deliver(t, event("evt_order_1", "order.created", `,"order":"o-7","seq":1`), 200)
	w.deliver(t, event("evt_order_3", "order.shipped", `,"order":"o-7","seq":3`), 200)
	w.deliver(t, strings.ReplaceAll(hostile("evt_hostile"), `\"><script>window.attacked=1</script>"`, `hostile"`), 200)
	w.deliver(t, event("evt_forged", "invoice.paid", ""), 401)
	if _, err := w.pool.Exec(t.Context(), `INSERT INTO outbox (source, event_id, type, payload, refused_at, refusal) VALUES ('nobody', 'o-1', 'paid', '{}', now(), 'source')`); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pool.Exec(t.Context(), `
		INSERT INTO notification (kind, name, count, more, since, text, opened_at, gone_at, told_at, told_count) VALUES
			('failing', 'billing', 50, false, now() - interval '2 hours', 'target billing fails: 50 effects wait since 2026-11-27 16:54 UTC, last answer 500', now() - interval '110 minutes', NULL, now() - interval '100 minutes', 50),
			('refusal', 'stripe', 10000, true, now() - interval '20 minutes', '10000 or more refusals in 24 hours of source stripe', now() - interval '19 minutes', now() - interval '1 minute', now() - interval '18 minutes', 3),
			('paused', 'target <b>ledger</b>', 1, false, now(), 'target <b>ledger</b> is paused since 2026-11-27 16:54 UTC by ann: a repair', now(), NULL, NULL, 0)`); err != nil {
		t.Fatal(err)
	}
	w.until(t, 3, `SELECT count(*) FROM effect WHERE state = 'dead'`)
	w.until(t, 1, `SELECT count(*) FROM effect WHERE state = 'indeterminate'`)
	w.until(t, 1, `SELECT count(*) FROM stream WHERE gap_since IS NOT NULL`)
	w.until(t, 1, `SELECT count(*) FROM refusal`)
}

// openConsole fills a world and starts a browser, in which nobody is logged in yet.
func openConsole(t *testing.T) (*world, *reader) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a browser")
	}
	ctx := browser(t)
	w := newWorld(t)
	w.fill(t)
	return w, &reader{t: t, ctx: ctx, at: w.private.URL}
}
