package app_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/internal/trials/prometheustest"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// alertRules are the rules that users take over.
const alertRules = "../../docs/guides/alerts.yml"

// observed is a schema whose processes are scraped for Prometheus.
type observed struct {
	url, schema string
	environ     []string
	pool        *pgxpool.Pool
	until       time.Time
	cfg         *config.Config
	app         *app.App

	clock *lab.FastClock // nil is the right time

	recorded prometheustest.Recording
}

// now is the time of the senders.
func (o *observed) now() time.Time {
	if o.clock == nil {
		return time.Now()
	}
	return o.clock.Now()
}

func newObserved(t *testing.T) *observed {
	t.Helper()
	answer := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	o := &observed{until: time.Now().Add(48 * time.Hour)}
	o.url, o.schema = inboxtest.Schema(t)
	o.pool = inboxtest.Open(t, o.url, o.schema, session.PoolAdmin, 2)
	o.environ = []string{
		"DATABASE_URL=" + o.url, "ONCEGATE_SCHEMA=" + o.schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "ONCEGATE_SWEEP_EVERY=1s",
		"SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "DOWN=" + closed.URL, "REFUSING=" + answer(http.StatusBadRequest), "UNSURE=" + answer(http.StatusInternalServerError),
	}
	return o
}

// serve starts a process, in place of the one before.
func (o *observed) serve(t *testing.T, file string, now func() time.Time) {
	t.Helper()
	var err error
	if o.cfg, err = config.Load(config.Options{Catalog: catalogtest.Load(t), File: "x.yml", Content: []byte(file), Environ: o.environ}); err != nil {
		t.Fatal(err)
	}
	o.stop(t)
	if o.app, err = app.New(t.Context(), app.Config{Settings: o.cfg, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: "test", Now: now}); err != nil {
		t.Fatal(err)
	}
	running := o.app
	t.Cleanup(func() { _ = running.Stop(context.WithoutCancel(t.Context())) })
	if err := o.app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (o *observed) stop(t *testing.T) {
	t.Helper()
	if o.app != nil {
		if err := o.app.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

func (o *observed) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := o.pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// deliver sends an event to a source, forged if forged is set, and returns the answer.
func (o *observed) deliver(t *testing.T, source, id, body string, forged bool) *httptest.ResponseRecorder {
	t.Helper()
	s := o.cfg.Sources[slices.IndexFunc(o.cfg.Sources, func(s *config.Source) bool { return s.Name == source })]
	r := &providers.Request{
		Method: http.MethodPost, URL: "http://127.0.0.1/in/" + source, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body), ReceivedAt: o.now(),
	}
	secret := s.Keys()[0]
	if forged {
		secret.Value = []byte("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	}
	if err := s.Provider.Sign(r, secret, id); err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), r.Method, r.URL, bytes.NewReader(r.Body))
	request.Header = r.Header
	recorder := httptest.NewRecorder()
	o.app.Deliver().ServeHTTP(recorder, request)
	return recorder
}

// scrape returns the series of the process. Each is taken as if it had been taken when the recording began.
func (o *observed) scrape(t *testing.T) prometheustest.Scrape {
	t.Helper()
	recorder := httptest.NewRecorder()
	o.app.Admin().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/metrics", http.NoBody))
	return prometheustest.Parse(t, recorder.Body.String(), "oncegate-1:8081", time.Now())
}

// awaited waits until a series has a value, and returns the scrape.
func (o *observed) awaited(t *testing.T, series string) (found prometheustest.Scrape) {
	t.Helper()
	name, value, _ := strings.Cut(series, " ")
	inboxtest.Until(t, series, func() bool {
		found = o.scrape(t)
		got, ok := found[strings.Replace(strings.TrimSuffix(name, "}")+`,instance="oncegate-1:8081"}`, "{,", "{", 1)]
		return ok && got == value
	})
	return found
}

// fired asks promtool which alerts fire while Prometheus has the recording, and compares.
func (o *observed) fired(t *testing.T, want ...string) {
	t.Helper()
	o.recorded.Ask(t, alertRules, prometheustest.Fired(0, o.recorded.Minutes(), want...))
}
