package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/internal/trials/prometheustest"
)

// startPrometheus starts a Prometheus that scrapes an address each second, and returns its address.
func startPrometheus(t *testing.T, scraped string) string {
	t.Helper()
	program := os.Getenv("ONCEGATE_PROMETHEUS")
	if program == "" {
		t.Skip("NOT TESTED: ONCEGATE_PROMETHEUS names no Prometheus. Building it takes five minutes, so `.ci/nightly alerts` does")
	}
	address, err := rig.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf("scrape_configs: [{ job_name: oncegate, scrape_interval: 1s, scrape_timeout: 1s, static_configs: [{ targets: [%q] }] }]\n", scraped)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log logtest.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program,
		"--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus: %s", log.String())
		}
	})
	return "http://" + address
}

// evaluate returns how many series a query has that are numbers.
func evaluate(t *testing.T, prometheus, expr string) (series int, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, prometheus+"/api/v1/query?"+url.Values{"query": {expr}}.Encode(), nil)
	if err != nil {
		return 0, err
	}
	response, err := client().Do(request)
	if err != nil {
		return 0, nil // it has not started yet
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, nil // nor is it ready
	}
	if answer.Error != "" {
		return 0, fmt.Errorf("%s", answer.Error)
	}
	for _, r := range answer.Data.Result {
		if r.Value[1] != "NaN" {
			series++
		}
	}
	return series, nil
}

// Prometheus evaluates each query of the dashboard on a process in which something goes wrong, and each finds series.
func TestDashboard(t *testing.T) {
	t.Parallel()
	queries := prometheustest.Dashboard(t, "../../docs/guides/grafana.json", "10s")
	o := newObserved(t)
	o.serve(t, fmt.Sprintf(alertsFile, o.until.UTC().Format(time.RFC3339)), nil)
	admin := httptest.NewServer(o.app.Admin())
	t.Cleanup(admin.Close)
	at := startPrometheus(t, strings.TrimPrefix(admin.URL, "http://"))
	round := 0
	for _, q := range queries {
		inboxtest.Until(t, "series of "+q.Panel+": "+q.Expr, func() bool {
			round++
			for _, kind := range []string{"ship", "pay", "bill"} {
				o.deliver(t, "shop", fmt.Sprint("evt_", kind, round), fmt.Sprintf(`{"type":%q}`, kind), false)
			}
			o.deliver(t, "shop", "evt_pay1", `{"type":"pay"}`, false)
			o.deliver(t, "shop", "evt_pay1", fmt.Sprintf(`{"type":"pay","amount":%d}`, round), false)
			o.deliver(t, "code", "evt_forged", `{"object_kind":"push"}`, true)
			series, err := evaluate(t, at, q.Expr)
			if err != nil {
				t.Fatalf("%s: %s: %v", q.Panel, q.Expr, err)
			}
			return series > 0
		})
	}
	// A query without series is noticed, or this test would pass without a Prometheus that scrapes.
	if series, err := evaluate(t, at, "oncegate_no_such_metric"); err != nil || series != 0 {
		t.Errorf("a metric that does not exist has %d series (%v)", series, err)
	}
	if _, err := evaluate(t, at, "rate(oncegate_attempts_total)"); err == nil {
		t.Error("an invalid query is valid")
	}
}
