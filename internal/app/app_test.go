package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// settings are one stripe source whose effects go to target, on a schema of
// the test's own.
func settings(t *testing.T, url, schema, target string) *config.Config {
	t.Helper()
	cat := catalogtest.Load(t)
	cfg, err := config.Load(config.Options{Catalog: cat, Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0",
		"ONCEGATE_SOURCE_PROVIDER=stripe", "ONCEGATE_SOURCE_SECRET=whsec_test",
		"ONCEGATE_FORWARD_URL=" + target, "ONCEGATE_FORWARD_IDEMPOTENT=true", "ONCEGATE_DRAIN=10s",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func newApp(t *testing.T, cfg *config.Config) *app.App {
	t.Helper()
	a, err := app.New(t.Context(), app.Config{
		Settings: cfg, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func client() *http.Client { return &http.Client{Timeout: 20 * time.Second} }

// deliveredFrom is the time in every payload, so that an event that is delivered again has the same bytes.
var deliveredFrom = time.Now()

// deliver sends a signed event and gives the status.
func deliver(t *testing.T, cfg *config.Config, a *app.App, id string) int {
	t.Helper()
	source := cfg.Sources[slices.IndexFunc(cfg.Sources, func(s *config.Source) bool { return s.Name == "stripe" })]
	r := &providers.Request{
		Method: http.MethodPost, URL: "http://" + a.PublicAddr().String() + "/in/stripe", Header: http.Header{"Content-Type": {"application/json"}},
		Body: fmt.Appendf(nil, `{"id":"%s","object":"event","created":%d,"type":"invoice.paid"}`, id, deliveredFrom.Unix()), ReceivedAt: time.Now(),
	}
	if err := source.Provider.Sign(r, source.Keys()[0], id); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), r.Method, r.URL, strings.NewReader(string(r.Body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = r.Header
	response, err := client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// readiness asks /readyz.
func readiness(t *testing.T, address string) (int, map[string]string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct{ Checks map[string]string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer.Checks
}

// An attempt under way when the process is told to stop is finished first, its
// outcome recorded, and while that lasts the process says that it is not ready
// and takes no deliveries.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { close(arrived) })
		<-release
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	cfg := settings(t, url, schema, target.URL)
	a := newApp(t, cfg)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, checks := readiness(t, a.AdminAddr().String()); status != http.StatusOK {
		t.Fatalf("not ready after Start: %d %v", status, checks)
	}
	if status := deliver(t, cfg, a, "evt_1"); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	<-arrived
	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(context.WithoutCancel(t.Context())) }()
	for deadline := time.Now().Add(10 * time.Second); ; {
		status, checks := readiness(t, a.AdminAddr().String())
		if status == http.StatusServiceUnavailable && checks["process"] == "stopping" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("does not say that it stops: %d %v", status, checks)
		}
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped before the attempt ended: %v", err)
	default:
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	var state string
	pool := inboxtest.Open(t, url, schema, "admin", 1)
	if err := pool.QueryRow(t.Context(), `SELECT state FROM effect`).Scan(&state); err != nil {
		t.Fatal(err)
	}
	if state != "done" {
		t.Errorf("the effect is %s, want done", state)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
}

// A schema that does not fit is refused before anything is made.
func TestNewRefusesAnEmptySchema(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.EmptySchema(t)
	_, err := app.New(t.Context(), app.Config{
		Settings: settings(t, url, schema, "http://127.0.0.1:9/"), Logger: slog.New(slog.DiscardHandler), Receive: true,
	})
	if err == nil || !strings.Contains(err.Error(), "oncegate migrate up") {
		t.Errorf("%v: does not say what to run", err)
	}
}

// A port that is taken stops the start, and what was started is stopped again.
func TestStartFailsWholly(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	first := newApp(t, settings(t, url, schema, "http://127.0.0.1:9/"))
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Stop(context.WithoutCancel(t.Context())) })
	cfg := settings(t, url, schema, "http://127.0.0.1:9/")
	cfg.Listen.Public = first.PublicAddr().String()
	second := newApp(t, cfg)
	if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "public address") {
		t.Fatalf("%v: does not name the address", err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+second.AdminAddr().String()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := client().Do(request); err == nil {
		_ = response.Body.Close()
		t.Error("the admin listener still answers")
	}
}
