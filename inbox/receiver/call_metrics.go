package receiver

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
)

// callMetrics measure the parts of a delivery separately, and count duplicates by the routes that
// they did not run again.
type callMetrics struct {
	gate, status, wait *prometheus.HistogramVec
	operations         *prometheus.CounterVec
	duplicates         *prometheus.CounterVec
	repeats            *prometheus.CounterVec
}

func newCallMetrics() *callMetrics {
	quick := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	return &callMetrics{
		gate: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "oncegate_gate_seconds", Help: "How long the gate took to record a delivery or to recognise it, its commit included.",
			Buckets: quick,
		}, []string{"source"}),
		status: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "oncegate_status_seconds", Help: "How long it took to answer a question how an operation ended, without the time for which the caller asked to wait.",
			Buckets: quick,
		}, []string{"source"}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "oncegate_wait_seconds", Help: "How long callers of operations waited for a result because they asked to, with a call or with a question.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"source"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_operations_total", Help: "Calls of operations that reached the gate, by operation and outcome. Operations that the configuration does not name are counted as other.",
		}, []string{"source", "operation", "outcome"}),
		duplicates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_duplicates_blocked_total", Help: "Effects that a route did not make again because their event was a duplicate.",
		}, []string{"source", "route"}),
		repeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_suspected_repeats_total", Help: "Calls of operations with the arguments of a recent call under another key, by the answer: flagged or refused.",
		}, []string{"source", "answer"}),
	}
}

func (m *callMetrics) register(reg prometheus.Registerer) []error {
	var errs []error
	for _, c := range []prometheus.Collector{m.gate, m.status, m.wait, m.operations, m.duplicates, m.repeats} {
		errs = append(errs, reg.Register(c))
	}
	return errs
}

// otherOperation counts the operations that the configuration does not name: a caller chooses their
// names.
const otherOperation = "other"

// callOutcomes are the outcomes of a call that reached the gate.
var callOutcomes = [...]outcome{
	outcomeRecorded, outcomeDuplicate, outcomeConflict, outcomeInFlight, outcomeUnusable, outcomeBeyondRetention, outcomeOverloaded, outcomeUnavailable,
}

// callCounters count the calls of one source, and the duplicates by route.
type callCounters struct {
	*sourceMetrics

	source     *inbox.Source
	operations map[string]bool // that the configuration names
}

// calls returns the counters of the source.
func (s *sourceMetrics) calls(source *inbox.Source) callCounters {
	c := callCounters{sourceMetrics: s, source: source, operations: map[string]bool{}}
	if len(source.Routes) > 0 {
		s.metrics.unrouted.WithLabelValues(s.label)
	}
	for i := range source.Routes {
		for _, pattern := range source.Routes[i].Types {
			if !strings.ContainsAny(pattern, `*?[\`) {
				c.operations[pattern] = true
			}
		}
	}
	return c
}

// call counts a call that reached the gate.
func (c *callCounters) call(operation string, o outcome) {
	if !slices.Contains(callOutcomes[:], o) {
		return
	}
	if !c.operations[operation] {
		operation = otherOperation
	}
	c.metrics.calls.operations.WithLabelValues(c.label, c.part(operation), string(o)).Inc()
}

// event counts what the gate found of an event: the routes that a duplicate did not run again, and a
// new event that no route takes.
func (c *callCounters) event(eventType string, item *inbox.ItemReceipt) {
	taken := len(c.source.Routes) == 0 // it only keeps its events
	for i := range c.source.Routes {
		if !c.source.Routes[i].Matches(eventType) {
			continue
		}
		taken = true
		if item.Outcome == inbox.Duplicate {
			c.metrics.calls.duplicates.WithLabelValues(c.label, c.part(c.source.Routes[i].Name)).Inc()
		}
	}
	if !taken && item.Outcome == inbox.Recorded && !item.Unusable && !item.BeyondRetention {
		c.metrics.unrouted.WithLabelValues(c.label).Inc()
	}
}
