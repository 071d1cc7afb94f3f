package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

const meteredFile = `
targets:
  bank: { kind: forward, url: env:TARGET, idempotent: false, breaker: { failures: 1, open: 10m }, probe: { url: env:PROBE, every: 1h } }
  billing: { kind: forward, url: env:TARGET, idempotent: true }
sources:
  stripe:
    provider: stripe
    secrets: [{ env: SECRET, until: "2099-01-01" }]
    reconcile: { credential: env:SECRET, base: "http://127.0.0.1:9", every: 24h }
    routes:
      - { name: pay, target: bank }
      - { name: bill, types: [never], target: billing, order: { mode: latest }, fetch: { url: "https://api.example/{body.id}" } }
  tables: { provider: standard-webhooks, emit: true }
  agents: { provider: operation, secrets: [{ env: SECRET, name: agent }], operation: { repeats: { within: 1m } }, routes: [{ name: call, types: [charge], target: billing }] }
`

// metered starts an app whose target answers 500, and gives what scrapes its metrics.
func metered(t *testing.T) (*app.App, *config.Config, func() string) {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	cat := catalogtest.Load(t)
	cfg, err := config.Load(config.Options{Catalog: cat, File: "x.yml", Content: []byte(meteredFile), Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0",
		"SECRET=whsec_test", "TARGET=" + target.URL, "PROBE=" + target.URL + "/{key}",
	}})
	if err != nil {
		t.Fatal(err)
	}
	a := newApp(t, cfg)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
	return a, cfg, func() string { return scrape(t, a) }
}

// A counter that begins with its first event shows no increase for it, and an alert on it stays
// silent: every counter of whose increase an alert is made is there from the start, with 0.
func TestCountersOfAlertsBeginAtZero(t *testing.T) {
	t.Parallel()
	_, _, scrape := metered(t)
	text := scrape()
	rules, err := os.ReadFile("../../docs/guides/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	counters := regexp.MustCompile(`increase\((oncegate_[a-z_]+)`).FindAllStringSubmatch(string(rules), -1)
	if len(counters) < 5 {
		t.Errorf("the rules take the increase of %d counters: the pattern does not find them", len(counters))
	}
	for _, counter := range counters {
		found := regexp.MustCompile(`(?m)^`+counter[1]+`(\{.*\})? (.*)$`).FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s is not there before its first event", counter[1])
		}
		for _, series := range found {
			// A process reconciles as soon as it starts.
			if series[2] != "0" && !strings.HasPrefix(counter[1], "oncegate_reconcile") {
				t.Errorf("%s%s is %s before anything happened", counter[1], series[1], series[2])
			}
		}
	}
	for _, series := range []string{
		`oncegate_deliveries_total{outcome="duplicate",source="stripe",tenant=""} 0`,
		`oncegate_refusals_total{reason="mismatch",source="stripe"} 0`,
		`oncegate_indeterminate_effects_total{route="pay",source="stripe",target="bank"} 0`,
		`oncegate_order_held_runnable_total{route="bill",source="stripe"} 0`,
		`oncegate_reconcile_events_total{outcome="missing",source="stripe"} 0`,
		`oncegate_breaker_state{state="closed",target="bank"} 1`,
		`oncegate_fetch_breaker_state{server="https://api.example",state="closed"} 1`,
	} {
		if !strings.Contains(text, "\n"+series+"\n") {
			t.Errorf("missing: %s", series)
		}
	}
}

// An effect that is put off was not attempted: behind an open breaker only the postponements rise.
func TestPostponementIsNoAttempt(t *testing.T) {
	t.Parallel()
	a, cfg, scrape := metered(t)
	if status := deliver(t, cfg, a, "evt_1"); status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	attempts := func() (sum int) {
		for _, series := range regexp.MustCompile(`(?m)^oncegate_attempts_total\{.*\} ([1-9]\d*)$`).FindAllStringSubmatch(scrape(), -1) {
			n, err := strconv.Atoi(series[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
			if strings.Contains(series[0], `outcome=""`) {
				t.Errorf("an attempt without an outcome: %s", series[0])
			}
		}
		return sum
	}
	inboxtest.Until(t, "the attempt that opens the breaker", func() bool {
		return strings.Contains(scrape(), "\n"+`oncegate_breaker_state{state="open",target="bank"} 1`+"\n") && attempts() == 1
	})
	if status := deliver(t, cfg, a, "evt_2"); status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	postponed := regexp.MustCompile(`(?m)^oncegate_postponements_total\{reason="target_open",route="pay",source="stripe",target="bank"\} [1-9]`)
	inboxtest.Until(t, "the effect that the breaker puts off", func() bool { return postponed.MatchString(scrape()) })
	if n := attempts(); n != 1 {
		t.Errorf("%d attempts are counted, want the one that was made", n)
	}
}
