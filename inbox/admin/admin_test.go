package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox/admin"
)

func newAdmin(t *testing.T, checks ...admin.Check) *admin.Admin {
	t.Helper()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "oncegate_test_total", Help: "A test."})
	registry.MustRegister(counter)
	counter.Add(3)
	a, err := admin.New(admin.Config{
		Gatherer: registry, Logger: slog.New(slog.DiscardHandler), Checks: checks, CheckTimeout: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func get(t *testing.T, a *admin.Admin, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Host = "127.0.0.1:8081"
	a.Handler().ServeHTTP(answer, r)
	return answer
}

// A page of another site whose name leads to this machine reads no metrics.
func TestMetricsAnswerOnlyAtOwnNames(t *testing.T) {
	t.Parallel()
	a, err := admin.New(admin.Config{Gatherer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Hosts: []string{"hooks.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"127.0.0.1:8081": 200, "[::1]:8081": 200, "[::1]": 200, "localhost": 200, "oncegate:8081": 200, "oncegate.monitoring.svc:8081": 200,
		"db.internal": 200, "Hooks.Example.com:443": 200, "hooks.example.com.": 200,
		"evil.example": 421, "evil.example:8081": 421, "127.0.0.1.evil.example": 421, "xhooks.example.com": 421, "internal.evil.example": 421,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Host = host
		answer := httptest.NewRecorder()
		a.Handler().ServeHTTP(answer, r)
		if answer.Code != want {
			t.Errorf("the host %s is answered %d, want %d", host, answer.Code, want)
		}
	}
}

func ok(context.Context) error { return nil }

func TestAdminAnswers(t *testing.T) {
	t.Parallel()
	a := newAdmin(t, admin.Check{Name: "database", Ready: func(context.Context) error { return errors.New("away") }})
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/healthz":   {200, `"ok"`}, // also when not ready
		"/readyz":    {503, "away"},
		"/metrics":   {200, "oncegate_test_total 3"},
		"/in/stripe": {404, ""},
		"/":          {404, ""},
	} {
		answer := get(t, a, "GET", path)
		if answer.Code != want.status || !strings.Contains(answer.Body.String(), want.body) {
			t.Errorf("%s: %d %s, want %d with %q", path, answer.Code, answer.Body, want.status, want.body)
		}
		if want.body == "" && answer.Body.Len() > 0 {
			t.Errorf("%s: body %q, want none", path, answer.Body)
		}
	}
	if answer := get(t, a, "POST", "/readyz"); answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", answer.Code)
	}
}

// An answer that is read in a terminal holds nothing that the terminal would obey.
func TestReadyzEscapesWhatATerminalObeys(t *testing.T) {
	t.Parallel()
	a := newAdmin(t, admin.Check{Name: "database", Ready: func(context.Context) error { return errors.New("away \u202e\u009b2J") }})
	answer := get(t, a, "GET", "/readyz").Body.String()
	if strings.ContainsAny(answer, "\u202e\u009b") || !strings.Contains(answer, `away \u202e\u009b2J`) {
		t.Errorf("answered %q", answer)
	}
}

func TestReadyzNamesEveryCheckThatFailed(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	a := newAdmin(t,
		admin.Check{Name: "gate", Ready: ok},
		admin.Check{Name: "clock", Ready: func(context.Context) error { return errors.New("31s from the database's") }},
		admin.Check{Name: "stuck", Ready: func(context.Context) error { <-stuck; return nil }},
		admin.Check{Name: "broken", Ready: func(context.Context) error { panic("secret") }},
	)
	answer := get(t, a, "GET", "/readyz")
	var got struct {
		Status string
		Checks map[string]string
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"gate": "ok", "clock": "31s from the database's", "stuck": "no answer in time", "broken": "the check panicked with a string",
	}
	if answer.Code != 503 || got.Status != "not ready" || len(got.Checks) != len(want) {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	for name, text := range want {
		if got.Checks[name] != text {
			t.Errorf("%s: %q, want %q", name, got.Checks[name], text)
		}
	}
	if answer := get(t, newAdmin(t, admin.Check{Name: "gate", Ready: ok}), "GET", "/readyz"); answer.Code != 200 {
		t.Errorf("all passing: %d", answer.Code)
	}
}

func TestNewReportsEverything(t *testing.T) {
	t.Parallel()
	_, err := admin.New(admin.Config{Checks: []admin.Check{{Name: "a", Ready: ok}, {Name: "a", Ready: ok}, {Name: "b"}}})
	for _, want := range []string{"Gatherer", "Logger", `"a" is given twice`, `"b"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestServerHasEveryLimit(t *testing.T) {
	t.Parallel()
	s := newAdmin(t).NewServer()
	if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout == 0 || s.IdleTimeout == 0 || s.MaxHeaderBytes == 0 {
		t.Error("a limit is missing")
	}
}
