package console_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/trials/rig"
)

// limit is how long something may take at most on a busy machine.
const limit = 60 * time.Second

// world is an Oncegate with a target that does as it is told.
type world struct {
	pool           *pgxpool.Pool
	private        *httptest.Server
	public         *httptest.Server
	mended         atomic.Bool // from when on the target takes what it refused
	token, visitor string      // of an administrator, and of somebody who sees no content
}

const stripeSecret = "whsec_console_test"

// newWorld starts one, with a route in order, a target that refuses, and a target that does not answer.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	target := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/cut"):
			panic(http.ErrAbortHandler) // the request was read, and no answer comes
		case strings.HasPrefix(r.URL.Path, "/refuse") && !w.mended.Load():
			http.Error(out, `no such account <script>window.attacked=1</script>`, http.StatusUnprocessableEntity)
		}
	}))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	file := filepath.Join(t.TempDir(), "oncegate.yml")
	content := fmt.Sprintf(`
database: { url: %q, schema: %s }
console: { redact: [email] }
targets:
  ledger: { kind: forward, url: "%[3]s/ledger", idempotent: true, allow: [127.0.0.0/8], retry: { attempts: 2, base: 10ms, max: 20ms } }
  billing: { kind: forward, url: "%[3]s/refuse", idempotent: true, allow: [127.0.0.0/8], retry: { attempts: 2, base: 10ms, max: 20ms } }
  charge: { kind: forward, url: "%[3]s/cut", idempotent: false, allow: [127.0.0.0/8] }
sources:
  stripe:
    provider: stripe
    secrets: [env:CONSOLE_TEST_SECRET]
    routes:
      - { name: ledger, types: ["invoice.*"], target: ledger }
      - { name: billing, types: ["refund.*"], target: billing }
      - { name: charge, types: ["charge.*"], target: charge }
      - { name: orders, types: ["order.*"], target: ledger, order: { mode: contiguous, key: body.order, number: body.seq, patience: 1h, on_gap: hold, on_dead: block } }
  quiet:
    provider: stripe
    secrets: [env:CONSOLE_TEST_SECRET]
`, url, schema, target.URL)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONSOLE_TEST_SECRET", stripeSecret)
	cfg, err := oncegate.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	og, err := oncegate.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/in/", og.Handler())
	w.public, w.private = httptest.NewServer(mux), httptest.NewServer(og.Admin())
	t.Cleanup(w.public.Close)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- og.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		w.private.CloseClientConnections()
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
	for name, scopes := range map[string][]string{"admin": {"admin"}, "visitor": {"read-metadata"}} {
		text, _, err := store.Create(t.Context(), tokens.New{Name: name, Scopes: scopes, Actor: "test", ExpiresAt: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if name == "admin" {
			w.token = text
		} else {
			w.visitor = text
		}
	}
	return w
}

// deliver sends a delivery of stripe's and wants the status.
func (w *world) deliver(t *testing.T, body string, status int) {
	t.Helper()
	now := time.Now()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.public.URL+"/in/stripe", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	secret := stripeSecret
	if status == http.StatusUnauthorized {
		secret = "whsec_another"
	}
	request.Header.Set("Stripe-Signature", rig.StripeSignature(secret, now, []byte(body)))
	response, err := (&http.Client{Timeout: limit}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != status {
		t.Fatalf("delivery: %d, want %d", response.StatusCode, status)
	}
}

func event(id, kind, more string) string {
	return fmt.Sprintf(`{"id":%q,"object":"event","created":%d,"type":%q%s}`, id, time.Now().Unix(), kind, more)
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
	w.until(t, 3, `SELECT count(*) FROM effect WHERE state = 'dead'`)
	w.until(t, 1, `SELECT count(*) FROM effect WHERE state = 'indeterminate'`)
	w.until(t, 1, `SELECT count(*) FROM stream WHERE gap_since IS NOT NULL`)
	w.until(t, 1, `SELECT count(*) FROM refusal`)
}
