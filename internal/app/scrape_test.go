package app_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// crowd is a process with many sources, each with one route. They share a target that is down.
type crowd struct {
	cfg *config.Config
	app *app.App
}

// newCrowd makes a process with n sources in a schema, and starts it. metered is metrics.sources; empty is its default.
func newCrowd(tb testing.TB, url, schema string, n int, metered string) *crowd {
	tb.Helper()
	var file strings.Builder
	file.WriteString("targets: { billing: { kind: forward, url: \"http://127.0.0.1:9/\", idempotent: true } }\nsources:\n")
	for i := range n {
		fmt.Fprintf(&file, "  customer-%04d: { provider: standard-webhooks, secrets: [env:SECRET], routes: [{ name: bill, target: billing }] }\n", i)
	}
	environ := []string{"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	if metered != "" {
		environ = append(environ, "ONCEGATE_METRICS_SOURCES="+metered)
	}
	cfg, err := config.Load(config.Options{Catalog: catalogtest.Load(tb), File: "x.yml", Content: []byte(file.String()), Environ: environ})
	if err != nil {
		tb.Fatal(err)
	}
	c := &crowd{cfg: cfg}
	if c.app, err = app.New(tb.Context(), app.Config{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: "test"}); err != nil {
		tb.Fatal(err)
	}
	if err := c.app.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.app.Stop(context.WithoutCancel(tb.Context())) })
	return c
}

// deliver sends one event to every source.
func (c *crowd) deliver(tb testing.TB) {
	tb.Helper()
	for _, s := range c.cfg.Sources {
		r := &providers.Request{
			Method: http.MethodPost, URL: "http://127.0.0.1/in/" + s.Name, Header: http.Header{"Content-Type": {"application/json"}},
			Body: []byte(`{"type":"invoice.paid"}`), ReceivedAt: time.Now(),
		}
		if err := s.Provider.Sign(r, s.Keys()[0], "evt_1"); err != nil {
			tb.Fatal(err)
		}
		request := httptest.NewRequestWithContext(tb.Context(), r.Method, r.URL, bytes.NewReader(r.Body))
		request.Header = r.Header
		recorder := httptest.NewRecorder()
		c.app.Deliver().ServeHTTP(recorder, request)
		if recorder.Code >= 300 {
			tb.Fatalf("%s: %d %s", s.Name, recorder.Code, recorder.Body)
		}
	}
}

// scrape gives the answer of /metrics and how many series of ours it has.
func (c *crowd) scrape(tb testing.TB) (text string, series int) {
	tb.Helper()
	recorder := httptest.NewRecorder()
	c.app.Admin().ServeHTTP(recorder, httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "http://127.0.0.1/metrics", http.NoBody))
	if recorder.Code != http.StatusOK {
		tb.Fatal(recorder.Code)
	}
	text = "\n" + recorder.Body.String()
	return text, strings.Count(text, "\noncegate_")
}

// Prometheus asks every few seconds. A source costs few series before its first event, and a bounded number of
// sources has series of its own after it.
func TestScrapeOfManySources(t *testing.T) {
	t.Parallel()

	t.Run("Idle", func(t *testing.T) {
		t.Parallel()
		measure := func(n int) (size, series int) {
			url, schema := inboxtest.Schema(t)
			text, series := newCrowd(t, url, schema, n, "all").scrape(t)
			return len(text), series
		}
		const few, many = 10, 110
		sizeOfFew, seriesOfFew := measure(few)
		size, series := measure(many)
		// 2,000 sources may have 3 MB.
		if each := float64(series-seriesOfFew) / (many - few); each > 6 {
			t.Errorf("%.1f series a source before its first event", each)
		}
		if each := float64(size-sizeOfFew) / (many - few); each > 500 {
			t.Errorf("%.0f bytes a source before its first event", each)
		}
	})

	t.Run("Busy", func(t *testing.T) {
		t.Parallel()
		url, schema := inboxtest.Schema(t)
		// The events of customer-0007 make it the busiest source before the next start.
		pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
		newCrowd(t, url, schema, 30, "none")
		if _, err := pool.Exec(t.Context(), `
INSERT INTO stat_hour (hour, source_id, route_id, tenant, kind, n) SELECT date_trunc('hour', now()), id, 0, '', 'recorded', 1000 FROM source WHERE name = 'customer-0007'`); err != nil {
			t.Fatal(err)
		}
		c := newCrowd(t, url, schema, 30, "top 2")
		c.deliver(t)
		inboxtest.Until(t, "an attempt of a source without series of its own", func() bool {
			text, _ := c.scrape(t)
			return strings.Contains(text, `,route="other",source="other",target="billing"} `) && strings.Contains(text, "\noncegate_attempts_total{")
		})
		text, _ := c.scrape(t)
		for _, want := range []string{
			`oncegate_deliveries_total{outcome="recorded",source="customer-0007",tenant=""} 1`,
			`oncegate_deliveries_total{outcome="recorded",source="customer-0000",tenant=""} 1`,
			`oncegate_deliveries_total{outcome="recorded",source="other",tenant="other"} 28`,
			`oncegate_delivery_seconds_count{source="other"} 28`,
			`oncegate_secret_matches_total{secret="other",source="other"} 28`,
		} {
			if !strings.Contains(text, "\n"+want+"\n") {
				t.Errorf("missing: %s", want)
			}
		}
		if strings.Contains(text, "customer-0001") {
			t.Error("a third source has series of its own")
		}
	})
}

// BenchmarkScrape answers /metrics of processes with many sources, before their first event and after one event of each.
//
//	go test ./internal/app -run - -bench Scrape
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{600, 2000} {
		for _, metered := range []string{"", "all", "none"} {
			for _, busy := range []bool{false, true} {
				name := slices.Concat([]string{strconv.Itoa(n)}, strings.Fields(metered))
				if busy {
					name = append(name, "busy")
				}
				b.Run(strings.Join(name, "/"), func(b *testing.B) {
					url, schema := inboxtest.Schema(b)
					c := newCrowd(b, url, schema, n, metered)
					if busy {
						c.deliver(b)
					}
					var text string
					var series int
					for b.Loop() {
						text, series = c.scrape(b)
					}
					b.ReportMetric(float64(len(text)), "bytes")
					b.ReportMetric(float64(series), "series")
				})
			}
		}
	}
}
