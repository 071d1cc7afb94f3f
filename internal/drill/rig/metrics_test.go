package rig_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Counters are summed over their labels, whatever stands in them.
func TestMetricsSumsOverLabels(t *testing.T) {
	t.Parallel()
	target, err := rig.StartTarget(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "# HELP a_total Some.\n# TYPE a_total counter\na_total{route=\"x {1} y\"} 2\na_total{route=\"z\"} 3\nb_bytes 1.5e+06\n")
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	metrics, err := (&rig.Node{Admin: target.Address}).Metrics(t.Context())
	if err != nil || len(metrics) != 2 || metrics["a_total"] != 5 || metrics["b_bytes"] != 1.5e6 {
		t.Errorf("%v, %v; want a_total 5 and b_bytes 1500000", metrics, err)
	}
}
