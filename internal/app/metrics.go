package app

import (
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
)

// newRegistry makes the registry of this process, with the metrics that every process has.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

func newBuildInfo(version string) prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "oncegate_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	})
	build.Set(1)
	return build
}

// mirror registers metrics in the registry of this process and in the registry of the program that
// embeds it, if it has one.
type mirror struct {
	own    *prometheus.Registry
	theirs prometheus.Registerer // may be nil
	all    []prometheus.Collector
}

var _ prometheus.Registerer = (*mirror)(nil)

// Register implements [prometheus.Registerer].
func (m *mirror) Register(c prometheus.Collector) error {
	if err := m.own.Register(c); err != nil || m.theirs == nil {
		return err
	}
	if err := m.theirs.Register(c); err != nil {
		return fmt.Errorf("registering metrics with the registerer of this program: %w", err)
	}
	m.all = append(m.all, c)
	return nil
}

// MustRegister implements [prometheus.Registerer].
func (m *mirror) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := m.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements [prometheus.Registerer].
func (m *mirror) Unregister(c prometheus.Collector) bool {
	if m.theirs != nil {
		m.theirs.Unregister(c)
	}
	return m.own.Unregister(c)
}

// withdraw removes all metrics from the program's registry.
func (m *mirror) withdraw() {
	for _, c := range m.all {
		m.theirs.Unregister(c)
	}
	m.all = nil
}

// Gather implements [prometheus.Gatherer] with the metrics that /metrics has.
func (a *App) Gather() ([]*dto.MetricFamily, error) { return a.registry.Gather() }

func (a *App) collect(all ...prometheus.Collector) error {
	for _, c := range all {
		if err := a.metrics.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// workMetrics count the attempts of effects. All labels are from closed sets: the configuration's
// names, states and reasons.
type workMetrics struct {
	attempts  *prometheus.CounterVec
	postponed *prometheus.CounterVec
	without   *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	strays    prometheus.Counter
	metered   metered
}

func newWorkMetrics(reg prometheus.Registerer, metered metered) (*workMetrics, error) {
	m := &workMetrics{
		metered: metered,
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_attempts_total", Help: "Attempts of effects that ended, by outcome and reason.",
		}, []string{"source", "route", "target", "outcome", "reason"}),
		postponed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_postponements_total", Help: "Effects that were put off without an attempt, by reason.",
		}, []string{"source", "route", "target", "reason"}),
		without: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_unattempted_effects_total", Help: "Effects that came to rest without an attempt, by their state.",
		}, []string{"source", "route", "target", "state"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "oncegate_attempt_seconds", Help: "From the claim of an effect to the end of the attempt.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"target"}),
		strays: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oncegate_unknown_route_effects_total", Help: "Effects handed over or put off because this process does not know their route, each time counted.",
		}),
	}
	for _, c := range []prometheus.Collector{m.attempts, m.postponed, m.without, m.seconds, m.strays} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe counts a report. Only a report with an outcome is an attempt.
func (m *workMetrics) observe(r jobs.Report) {
	source, route := m.metered.labels(r.Source, r.Route)
	switch {
	case r.Route == "" && r.Reason == reasons.Route:
		m.strays.Inc() // the names are empty because no configuration here has the route
	case r.Outcome != "":
		m.attempts.WithLabelValues(source, route, r.Target, string(r.Outcome), string(r.Reason)).Inc()
		m.seconds.WithLabelValues(r.Target).Observe(r.Elapsed.Seconds())
	case r.State.Waiting(), r.State == inbox.EffectHeld:
		m.postponed.WithLabelValues(source, route, r.Target, string(r.Reason)).Inc()
	default:
		m.without.WithLabelValues(source, route, r.Target, string(r.State)).Inc()
	}
}
