package receiver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// measured serves operations whose callers wait for seven seconds of a clock that nobody waits for.
func measured(t *testing.T, g *fakeGate, o *outcomes) (http.Handler, *prometheus.Registry) {
	t.Helper()
	cat := catalogtest.Load(t)
	registry := prometheus.NewRegistry()
	cfg := config(g, newProvider())
	var err error
	if cfg.Metrics, err = receiver.NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	clock := now
	cfg.Now = func() time.Time { return clock }
	o.meanwhile = func() { clock = clock.Add(7 * time.Second) }
	routes := []inbox.Route{{Name: "pay", Types: []string{"charge"}}, {Name: "log", Types: []string{"*"}}, {Name: "mail", Types: []string{"notify"}}}
	cfg.Sources, cfg.Outcomes = map[string]*receiver.Source{"agents": {
		Inbox: &inbox.Source{ID: 9, Name: "agents", Class: "default", Strict: true, Routes: routes}, Provider: cat["operation"],
		Secrets: func() []providers.Secret { return []providers.Secret{{Name: "agent", Value: []byte("one")}} },
	}}, o
	return newReceiver(t, cfg), registry
}

// histogramOf gives how many observations a histogram has, and their sum in seconds.
func histogramOf(t *testing.T, registry *prometheus.Registry, name string) (count uint64, sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if family.GetName() == name {
				count += series.GetHistogram().GetSampleCount()
				sum += series.GetHistogram().GetSampleSum()
			}
		}
	}
	return count, sum
}

// What a caller waits for is not the latency of an admission, and neither is a question.
func TestWaitingIsMeasuredApart(t *testing.T) {
	t.Parallel()
	o := &outcomes{settled: true, keys: map[string]inbox.ID{"9/agent/" + recordedID: recorded}}
	h, registry := measured(t, answering(inbox.Recorded), o)
	if w := operate(t, h, "Prefer", "wait=10"); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/in/agents/"+recordedID, nil)
	req.Header.Set("Authorization", "Bearer one")
	req.Header.Set("Prefer", "wait=10")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, req); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for name, want := range map[string]struct {
		count uint64
		sum   float64
	}{
		"oncegate_delivery_seconds": {1, 0}, "oncegate_gate_seconds": {1, 0}, "oncegate_status_seconds": {1, 0}, "oncegate_wait_seconds": {2, 14},
	} {
		if count, sum := histogramOf(t, registry, name); count != want.count || sum != want.sum {
			t.Errorf("%s: %d observations of %g s together, want %d of %g s", name, count, sum, want.count, want.sum)
		}
	}
}

// Duplicates are counted by operation and by the routes that did not act again; a name that the
// configuration does not have is no label.
func TestDuplicatesAreCountedByOperationAndRoute(t *testing.T) {
	t.Parallel()
	h, registry := measured(t, answering(inbox.Duplicate), &outcomes{settled: true})
	text := func() string {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, family := range families {
			for _, series := range family.GetMetric() {
				if series.GetCounter() == nil {
					continue
				}
				b.WriteString(family.GetName())
				for _, label := range series.GetLabel() {
					b.WriteString(" " + label.GetValue())
				}
				b.WriteString(" " + jsonInt(int(series.GetCounter().GetValue())) + "\n")
			}
		}
		return b.String()
	}
	operate(t, h)
	operate(t, h, "Oncegate-Operation", "an-agents-invention")
	for _, want := range []string{
		"oncegate_operations_total charge duplicate agents 1\n", "oncegate_operations_total other duplicate agents 1\n",
		"oncegate_duplicates_blocked_total pay agents 1\n", "oncegate_duplicates_blocked_total log agents 2\n",
	} {
		if got := text(); !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Contains(text(), "_total mail ") {
		t.Error("a route that takes no such call is counted")
	}
	if strings.Contains(text(), "invention") || strings.Contains(text(), "*") {
		t.Error("a caller chose a label")
	}
}
