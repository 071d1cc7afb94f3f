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

// repeatCounters count what a source's callers are suspected to have repeated.
type repeatCounters struct{ flagged, refused prometheus.Counter }

func (m *callMetrics) repeatCounters(source string) repeatCounters {
	return repeatCounters{flagged: m.repeats.WithLabelValues(source, "flagged"), refused: m.repeats.WithLabelValues(source, "refused")}
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

// callCounters are the counters of one source, made once.
type callCounters struct {
	source     *inbox.Source
	operations map[string]map[outcome]prometheus.Counter // nil for senders of a provider
	duplicates []prometheus.Counter                      // in the order of the source's routes
}

// counters makes the counters of a source, each with 0.
func (m *callMetrics) counters(name string, source *inbox.Source, isOperation bool) callCounters {
	c := callCounters{source: source}
	operations := []string{otherOperation}
	for i := range source.Routes {
		c.duplicates = append(c.duplicates, m.duplicates.WithLabelValues(name, source.Routes[i].Name))
		for _, pattern := range source.Routes[i].Types {
			if !strings.ContainsAny(pattern, `*?[\`) {
				operations = append(operations, pattern)
			}
		}
	}
	if !isOperation {
		return c
	}
	c.operations = make(map[string]map[outcome]prometheus.Counter, len(operations))
	slices.Sort(operations)
	for _, operation := range slices.Compact(operations) {
		c.operations[operation] = make(map[outcome]prometheus.Counter, len(callOutcomes))
		for _, o := range callOutcomes {
			c.operations[operation][o] = m.operations.WithLabelValues(name, operation, string(o))
		}
	}
	return c
}

// call counts a call that reached the gate.
func (c *callCounters) call(operation string, o outcome) {
	counters := c.operations[operation]
	if counters == nil {
		counters = c.operations[otherOperation]
	}
	if counter := counters[o]; counter != nil {
		counter.Inc()
	}
}

// duplicate counts the routes of an event of the type, which a duplicate did not run again.
func (c *callCounters) duplicate(eventType string) {
	for i := range c.source.Routes {
		if c.source.Routes[i].Matches(eventType) {
			c.duplicates[i].Inc()
		}
	}
}
