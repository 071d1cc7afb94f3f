package receiver

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/providers"
)

// Metrics are the counters of the public door. Labels come from closed sets:
// the configuration's source and secret names, and the outcomes and reasons of
// this package and of package providers.
type Metrics struct {
	deliveries *prometheus.CounterVec
	refusals   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	bytes      *prometheus.HistogramVec
	secrets    *prometheus.CounterVec
	suspected  *prometheus.CounterVec
	untyped    *prometheus.CounterVec
	unproved   *prometheus.GaugeVec
	unrouted   *prometheus.CounterVec
	expiry     *prometheus.GaugeVec
	expiries   map[[2]string]time.Time // by source and secret
	failures   *failureCollector
	unknown    prometheus.Counter
	calls      *callMetrics

	inFlight          atomic.Int64
	bodyBytesInFlight atomic.Int64
}

// NewMetrics registers the metrics with reg; a nil reg registers nothing. One
// Metrics serves one [Receiver].
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_deliveries_total", Help: "Requests to a source, by outcome and by the tenant that they are for: the source's own until a credential says otherwise.",
		}, []string{"source", "outcome", "tenant"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_refusals_total", Help: "Refused requests, by reason.",
		}, []string{"source", "reason"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "oncegate_delivery_seconds", Help: "From a delivery's headers to the decision of its answer, without the time for which the caller of an operation asked to wait.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"source"}),
		bytes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "oncegate_body_bytes", Help: "Sizes of the bodies received.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 9),
		}, []string{"source"}),
		secrets: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_secret_matches_total", Help: "Verified deliveries, by the secret that matched.",
		}, []string{"source", "secret"}),
		suspected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_suspected_replays_total", Help: "Events whose exact bytes were recorded under another id before.",
		}, []string{"source"}),
	}
	m.untyped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oncegate_unknown_events_total", Help: "Events recorded under the type unknown, because no rule of their provider finds a type in them.",
	}, []string{"source"})
	m.unproved = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "oncegate_unproved_sources", Help: "1 for each source whose provider proves nothing, so that anybody can deliver to it.",
	}, []string{"source"})
	m.unrouted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oncegate_unrouted_events_total", Help: "Events that none of the source's routes takes. A source without routes only keeps its events and is not counted.",
	}, []string{"source"})
	m.expiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "oncegate_secret_expiry_timestamp_seconds", Help: "When a secret with `until` stops being accepted, as a Unix time.",
	}, []string{"source", "secret"})
	m.expiries = map[[2]string]time.Time{}
	m.failures = newFailureCollector()
	m.calls = newCallMetrics()
	m.unknown = m.refusals.WithLabelValues("", string(reasonUnknownSource))
	if reg == nil {
		return m, nil
	}
	inFlight := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oncegate_deliveries_in_flight", Help: "Requests to a source that are being served.",
	}, func() float64 { return float64(m.inFlight.Load()) })
	bodyBytes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oncegate_body_in_flight_bytes", Help: "Memory that bodies in flight hold, of the budget for them.",
	}, func() float64 { return float64(m.bodyBytesInFlight.Load()) })
	errs := m.calls.register(reg)
	for _, c := range []prometheus.Collector{
		m.deliveries, m.refusals, m.seconds, m.bytes, m.secrets, m.suspected, m.untyped, m.unproved, m.unrouted, m.expiry, m.failures, inFlight, bodyBytes,
	} {
		errs = append(errs, reg.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering the receiver's metrics: %w", err)
	}
	return m, nil
}

// OtherSource is the label under which sources without series of their own are counted together.
// Their routes, tenants, secrets and operations have it, too.
const OtherSource = "other"

// sourceMetrics count the deliveries of one source. A series begins with the first case, except
// those whose first case an alert must see: see [Metrics.source].
type sourceMetrics struct {
	metrics *Metrics
	label   string
	rollup  map[string]*rollup.Counters // by tenant; nil where nothing is rolled up

	failures *failureRun // nil if the sender documents no limit
}

// part returns the label of a route, a tenant, a secret or an operation of the source.
func (s *sourceMetrics) part(name string) string {
	if s.label == OtherSource {
		return OtherSource
	}
	return name
}

// rollUp has the source's deliveries counted by minute, too.
func (s *sourceMetrics) rollUp(r *rollup.Recorder, source int32, tenants []string) {
	s.rollup = make(map[string]*rollup.Counters, len(tenants))
	for _, tenant := range tenants {
		s.rollup[tenant] = r.Counters(source, 0, tenant)
	}
}

// source returns the metrics of a source. It creates the series from whose increase an alert is
// made, with 0: the increase of a series that begins with its first case misses that case.
func (m *Metrics) source(label string, tenants []string) sourceMetrics {
	s := sourceMetrics{metrics: m, label: label}
	for _, tenant := range tenants {
		m.deliveries.WithLabelValues(label, string(outcomeDuplicate), s.part(tenant))
	}
	m.refusals.WithLabelValues(label, string(providers.ReasonMismatch))
	return s
}

// observe counts a delivery. The caller of an operation waited for its result for waited of the time
// that it took.
func (s *sourceMetrics) observe(res *result, tenant string, started time.Time, took, waited time.Duration) {
	s.countOutcome(res, tenant, started)
	s.metrics.seconds.WithLabelValues(s.label).Observe((took - waited).Seconds())
	if res.outcome.acknowledged() {
		s.rollup[tenant].AddLatency(started, took-waited)
	}
	if waited > 0 {
		s.metrics.calls.wait.WithLabelValues(s.label).Observe(waited.Seconds())
	}
}

// observeStatus counts a question how an operation ended.
func (s *sourceMetrics) observeStatus(res *result, tenant string, started time.Time, took, waited time.Duration) {
	s.countOutcome(res, tenant, started)
	s.metrics.calls.status.WithLabelValues(s.label).Observe((took - waited).Seconds())
	if waited > 0 {
		s.metrics.calls.wait.WithLabelValues(s.label).Observe(waited.Seconds())
	}
}

func (s *sourceMetrics) countOutcome(res *result, tenant string, started time.Time) {
	counted := res.outcome
	if !slices.Contains(outcomes[:], counted) {
		counted = outcomeUnavailable
	}
	s.metrics.deliveries.WithLabelValues(s.label, string(counted), s.part(tenant)).Inc()
	if s.failures != nil {
		// Refusals count too: a sender with a wrong secret stops delivering like one whose endpoint is down.
		if res.outcome == outcomeRefused || res.outcome.unavailable() {
			s.failures.length.Add(1)
		} else {
			s.failures.length.Store(0)
		}
	}
	if res.outcome == outcomeRefused {
		why := res.reason
		if !slices.Contains(reasons[:], why) {
			why = "other"
		}
		s.metrics.refusals.WithLabelValues(s.label, string(why)).Inc()
		s.rollup[tenant].Add(started, rollup.Refused, 1)
	}
	if res.outcome.unavailable() {
		s.rollup[tenant].Add(started, rollup.Unavailable, 1)
	}
}

// expires shows when the secret expires. Of the secrets under one label it shows the first. Whether
// the sender still uses the secret is seen from the increase of its matches.
func (s *sourceMetrics) expires(secret *providers.Secret) {
	if secret.NotAfter.IsZero() {
		return
	}
	name := s.part(secret.Name)
	s.metrics.secrets.WithLabelValues(s.label, name)
	key := [2]string{s.label, name}
	if first, ok := s.metrics.expiries[key]; ok && first.Before(secret.NotAfter) {
		return
	}
	s.metrics.expiries[key] = secret.NotAfter
	s.metrics.expiry.WithLabelValues(s.label, name).Set(float64(secret.NotAfter.Unix()))
}

// NewGateCollector shows the gate's own counters.
func NewGateCollector(stats func() gate.Stats) prometheus.Collector {
	return snapshot[gate.Stats]{take: stats, series: []series[gate.Stats]{
		counter("oncegate_gate_groups_total", "Groups committed.", func(s *gate.Stats) uint64 { return s.Groups }),
		counter("oncegate_gate_events_total", "Events that were new.", func(s *gate.Stats) uint64 { return s.Events }),
		counter("oncegate_gate_duplicates_total", "Events recognised as duplicates.", func(s *gate.Stats) uint64 { return s.Duplicates }),
		counter("oncegate_gate_conflicts_total", "Events with the key of an event with another payload.", func(s *gate.Stats) uint64 { return s.Conflicts }),
		counter("oncegate_gate_conflicts_displaced_total", "Payloads of conflicts that made room for newer ones of their event.", func(s *gate.Stats) uint64 { return s.Displaced }),
		counter("oncegate_gate_ambiguous_total", "Commits whose answer was lost.", func(s *gate.Stats) uint64 { return s.Ambiguous }),
		counter("oncegate_gate_splits_total", "Groups that had to be committed in parts.", func(s *gate.Stats) uint64 { return s.Splits }),
		counter("oncegate_gate_overloads_total", "Deliveries that the gate answered with 503 because too much was waiting.", func(s *gate.Stats) uint64 { return s.Overloads }),
		counter("oncegate_gate_partitions_total", "Partitions that were missing and made by a delivery.", func(s *gate.Stats) uint64 { return s.Partitions }),
		counter("oncegate_gate_failures_total", "Deliveries that were not recorded because of a fault of ours.", func(s *gate.Stats) uint64 { return s.Failed }),
		gauge("oncegate_gate_queued_events", "Events waiting for a group.", func(s *gate.Stats) int64 { return int64(s.QueuedEvents) }),
		gauge("oncegate_gate_queued_bytes", "Bytes of bodies waiting for a group.", func(s *gate.Stats) int64 { return s.QueuedBytes }),
	}}
}

// NewConnectionsCollector shows the connections of the public listener.
func NewConnectionsCollector(stats func() ConnectionStats) prometheus.Collector {
	return snapshot[ConnectionStats]{take: stats, series: []series[ConnectionStats]{
		gauge("oncegate_open_connections", "Connections of the public listener.", func(s *ConnectionStats) int64 { return int64(s.Open) }),
		gauge("oncegate_open_connections_limit", "How many connections the public listener may have.", func(s *ConnectionStats) int64 { return int64(s.Most) }),
		gauge("oncegate_connected_peers", "Peers with a connection to the public listener: IPv4 addresses and IPv6 /64 networks.", func(s *ConnectionStats) int64 { return int64(s.Peers) }),
		counter("oncegate_shed_connections_total", "Connections closed to make room for others: the slowest of those that brought nothing.", func(s *ConnectionStats) uint64 { return s.Shed }),
		counter("oncegate_refused_connections_total", "Connections that were refused because there was no room.", func(s *ConnectionStats) uint64 { return s.Refused }),
	}}
}

// NewClockCollector shows how the clocks compare.
func NewClockCollector(stats func() inbox.ClockStats) prometheus.Collector {
	return snapshot[inbox.ClockStats]{take: stats, series: []series[inbox.ClockStats]{
		{
			prometheus.NewDesc("oncegate_clock_skew_seconds", "How far the database's clock was ahead of this machine's when it was last read.", nil, nil),
			prometheus.GaugeValue, func(s *inbox.ClockStats) float64 { return s.Skew.Seconds() },
		},
		counter("oncegate_clock_measurements_total", "How often the database's clock was read.", func(s *inbox.ClockStats) uint64 { return s.Measured }),
		counter("oncegate_clock_skewed_measurements_total", "How often the database's clock was too far from this machine's.", func(s *inbox.ClockStats) uint64 { return s.Beyond }),
		counter("oncegate_clock_failed_measurements_total", "How often the database's clock could not be read.", func(s *inbox.ClockStats) uint64 { return s.Failed }),
	}}
}

// NewRefusalsCollector shows the counters of the refusal store.
func NewRefusalsCollector(stats func() refusal.Stats) prometheus.Collector {
	return snapshot[refusal.Stats]{take: stats, series: []series[refusal.Stats]{
		counter("oncegate_refusals_written_total", "Refusals kept.", func(s *refusal.Stats) uint64 { return s.Written }),
		counter("oncegate_refusals_limited_total", "Refusals that were not kept because they exceeded the rate of their source.", func(s *refusal.Stats) uint64 { return s.Limited }),
		counter("oncegate_refusals_dropped_total", "Refusals that were not kept because the queue was full.", func(s *refusal.Stats) uint64 { return s.Dropped }),
		counter("oncegate_refusals_failed_total", "Refusals that could not be written.", func(s *refusal.Stats) uint64 { return s.Failed }),
		counter("oncegate_refusals_evicted_total", "Refusals that made room for newer ones.", func(s *refusal.Stats) uint64 { return s.Evicted }),
		gauge("oncegate_refusals_queued_bytes", "Memory of refusals waiting to be written.", func(s *refusal.Stats) int64 { return s.QueuedBytes }),
	}}
}

// snapshot is a collector that reads counters of another component.
type snapshot[T any] struct {
	take   func() T
	series []series[T]
}

type series[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*T) float64
}

func counter[T any](name, help string, value func(*T) uint64) series[T] {
	return series[T]{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, func(s *T) float64 { return float64(value(s)) }}
}

func gauge[T any](name, help string, value func(*T) int64) series[T] {
	return series[T]{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, func(s *T) float64 { return float64(value(s)) }}
}

// Describe implements [prometheus.Collector].
func (c snapshot[T]) Describe(out chan<- *prometheus.Desc) {
	for _, s := range c.series {
		out <- s.desc
	}
}

// Collect implements [prometheus.Collector].
func (c snapshot[T]) Collect(out chan<- prometheus.Metric) {
	now := c.take()
	for _, s := range c.series {
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(&now))
	}
}
