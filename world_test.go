package oncegate_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

const secret = "whsec_test"

// limit is the longest time that an operation may take on a busy machine.
const limit = 60 * time.Second

// world is an Inbox with its own server.
type world struct {
	cfg    oncegate.Config
	og     *oncegate.Inbox
	server *httptest.Server
	pool   *pgxpool.Pool
	stop   context.CancelFunc
	ended  chan error
}

// invoices returns the Config of one source whose paid invoices go to the handler ledger.
func invoices(url, schema string) oncegate.Config {
	return oncegate.Config{
		DatabaseURL: url, Schema: schema, Logger: slog.New(slog.DiscardHandler),
		Sources: []oncegate.Source{{
			Name: "stripe", Secrets: []oncegate.Secret{oncegate.Value(secret)},
			Routes: []oncegate.Route{{
				Name: "ledger", Types: []string{"invoice.paid"},
				Retry: oncegate.Retry{Attempts: 5, Base: 10 * time.Millisecond, Max: 50 * time.Millisecond},
			}},
		}},
	}
}

// open opens an Inbox on a separate schema, with a table ledger next to Oncegate's.
func open(t *testing.T, change func(*oncegate.Config)) *world {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	cfg := invoices(url, schema)
	if change != nil {
		change(&cfg)
	}
	w := openAs(t, cfg)
	if _, err := w.pool.Exec(t.Context(), `CREATE TABLE ledger (event text NOT NULL, body bytea)`); err != nil {
		t.Fatal(err)
	}
	return w
}

func openAs(t *testing.T, cfg oncegate.Config) *world {
	t.Helper()
	og, err := oncegate.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/in/", og.Handler())
	w := &world{cfg: cfg, og: og, server: httptest.NewServer(mux), pool: inboxtest.Open(t, cfg.DatabaseURL, cfg.Schema, "admin", 2)}
	t.Cleanup(w.server.Close)
	t.Cleanup(func() {
		if err := og.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return w
}

// run runs the Inbox until the test ends or stops it.
func (w *world) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w.stop, w.ended = stop, make(chan error, 1)
	t.Cleanup(stop)
	go func() { w.ended <- w.og.Run(ctx) }()
	select {
	case <-w.og.Started():
	case err := <-w.ended:
		t.Fatalf("Run ended before it started: %v", err)
	case <-time.After(limit):
		t.Fatal("not started in time")
	}
}

// halt ends Run's context and waits for Run.
func (w *world) halt(t *testing.T) {
	t.Helper()
	w.stop()
	select {
	case err := <-w.ended:
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
	case <-time.After(limit):
		t.Fatal("Run does not end")
	}
}

// deliver sends a signed event and returns the response. The response's body is closed.
func (w *world) deliver(t *testing.T, id string) *http.Response {
	t.Helper()
	now := time.Now()
	body := fmt.Sprintf(`{"id":%q,"object":"event","created":%d,"type":"invoice.paid"}`, id, now.Unix())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+"/in/stripe", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Stripe-Signature", rig.StripeSignature(secret, now, []byte(body)))
	response, err := (&http.Client{Timeout: limit}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response
}

// acknowledged delivers an event and requires the status 200.
func (w *world) acknowledged(t *testing.T, id string) {
	t.Helper()
	if response := w.deliver(t, id); response.StatusCode != http.StatusOK {
		t.Fatalf("delivery %s: status %d, want 200", id, response.StatusCode)
	}
}

// count returns the number that a query selects.
func (w *world) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// await polls until a query selects the wanted number.
func (w *world) await(t *testing.T, want int, query string, args ...any) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		got := w.count(t, query, args...)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d, want %d", query, got, want)
		}
	}
}

// book is a handler that writes the event into the table ledger.
func book(ctx context.Context, tx pgx.Tx, e oncegate.Event) error {
	_, err := tx.Exec(ctx, `INSERT INTO ledger (event, body) VALUES ($1, $2)`, e.EventID, e.Body)
	return err
}

func attach(t *testing.T, og *oncegate.Inbox, route string, handle func(context.Context, pgx.Tx, oncegate.Event) error) {
	t.Helper()
	if err := og.Handle(route, handle); err != nil {
		t.Fatal(err)
	}
}
