package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
)

// orderedRoute is a route of this process whose effects wait for each other.
type orderedRoute struct {
	servedRoute

	warn time.Duration
}

// orderedRoutes returns the ordered routes by id.
func (a *App) orderedRoutes() map[int32]orderedRoute {
	out := map[int32]orderedRoute{}
	for _, s := range a.settings.Sources {
		for _, r := range s.Routes {
			if r.Order.Ordered() {
				out[a.sources[s.Name].Routes[r.Name].ID] = orderedRoute{servedRoute: servedRoute{s.Name, r.Name}, warn: r.Order.WithDefaults().Warn}
			}
		}
	}
	return out
}

// orderCounters are the counters of [inbox.OrderStats].
var orderCounters = []struct {
	name, help string
	value      func(inbox.OrderStats) uint64
}{
	{"oncegate_order_held_total", "Effects that had to wait for another one of their key, or for a missing number.", func(s inbox.OrderStats) uint64 { return s.Held }},
	{"oncegate_order_superseded_total", "Effects that were superseded by a newer one of their key.", func(s inbox.OrderStats) uint64 { return s.Superseded }},
	{"oncegate_order_filtered_total", "Effects of a contiguous route whose event is filtered out and that only settle their number.", func(s inbox.OrderStats) uint64 { return s.Filtered }},
	{"oncegate_order_long_gaps_total", "Gaps that lasted longer than the route's `warn`.", func(s inbox.OrderStats) uint64 { return s.LongGaps }},
	{"oncegate_order_abandoned_gaps_total", "Gaps that the route's policy ended.", func(s inbox.OrderStats) uint64 { return s.AbandonedGaps }},
	{"oncegate_order_late_total", "Effects whose number had been passed before they arrived.", func(s inbox.OrderStats) uint64 { return s.Late }},
	{"oncegate_order_ties_total", "Effects whose number another one of their key has.", func(s inbox.OrderStats) uint64 { return s.Ties }},
	{"oncegate_order_missing_keys_total", "Effects admitted without a sequence key.", func(s inbox.OrderStats) uint64 { return s.MissingKeys }},
	{"oncegate_order_missing_numbers_total", "Effects admitted without a sequence number.", func(s inbox.OrderStats) uint64 { return s.MissingNumbers }},
	{"oncegate_order_held_runnable_total", "Held effects that were found free to run and were released: an error of Oncegate. It must stay 0.", func(s inbox.OrderStats) uint64 { return s.HeldRunnable }},
}

// heldRunnable has an alert. A counter that an alert watches begins with 0, and any other with its
// first event.
const heldRunnable = "oncegate_order_held_runnable_total"

// orderCollector shows the counters of the ordered routes.
type orderCollector struct {
	routes map[int32]servedRoute // as metrics name them
	take   []func() map[int32]inbox.OrderStats
	descs  []*prometheus.Desc
}

func newOrderCollector(routes map[int32]servedRoute, take []func() map[int32]inbox.OrderStats) *orderCollector {
	c := &orderCollector{routes: routes, take: take}
	for _, counter := range orderCounters {
		c.descs = append(c.descs, prometheus.NewDesc(counter.name, counter.help, []string{"source", "route"}, nil))
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *orderCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *orderCollector) Collect(out chan<- prometheus.Metric) {
	taken := make([]map[int32]inbox.OrderStats, len(c.take))
	for i, take := range c.take {
		taken[i] = take()
	}
	sums := map[servedRoute][]uint64{}
	for id, r := range c.routes {
		if sums[r] == nil {
			sums[r] = make([]uint64, len(orderCounters))
		}
		for i, counter := range orderCounters {
			for _, stats := range taken {
				sums[r][i] += counter.value(stats[id])
			}
		}
	}
	for r, counts := range sums {
		for i, n := range counts {
			if n > 0 || orderCounters[i].name == heldRunnable {
				out <- prometheus.MustNewConstMetric(c.descs[i], prometheus.CounterValue, float64(n), r.source, r.route)
			}
		}
	}
}

// orderGauges show the states of the streams of ordered routes. They are read from the database
// periodically, with bounded counts. A route has no series until one of them is not 0.
type orderGauges struct {
	held, gaps, oldestGap, blocked *prometheus.GaugeVec
	shown                          map[servedRoute]bool
}

const (
	// orderGaugesEvery is how often the gauges are read, and orderGaugesBound how long that may
	// take.
	orderGaugesEvery = 15 * time.Second
	orderGaugesBound = 5 * time.Second
)

func newOrderGauges() *orderGauges {
	return &orderGauges{
		shown:     map[servedRoute]bool{},
		held:      newRouteGauge("oncegate_held_effects", "Effects that wait for an earlier one of their sequence key, among the first 10,000 unsettled ones."),
		gaps:      newRouteGauge("oncegate_gaps", "Sequence keys that wait for a missing number, counted up to 10,000."),
		oldestGap: newRouteGauge("oncegate_oldest_gap_seconds", "How long the oldest missing number has been waited for; 0 without one."),
		blocked:   newRouteGauge("oncegate_blocked_keys", "Sequence keys that a dead or indeterminate effect blocks, counted up to 10,000."),
	}
}

func (g *orderGauges) all() []prometheus.Collector {
	return []prometheus.Collector{g.held, g.gaps, g.oldestGap, g.blocked}
}

func (g *orderGauges) set(r servedRoute, s read.StreamStats) {
	if g.shown[r] = g.shown[r] || s.Held+s.Gaps+s.Blocked > 0; !g.shown[r] {
		return
	}
	g.held.WithLabelValues(r.source, r.route).Set(float64(s.Held))
	g.gaps.WithLabelValues(r.source, r.route).Set(float64(s.Gaps))
	g.oldestGap.WithLabelValues(r.source, r.route).Set(s.OldestGap.Seconds())
	g.blocked.WithLabelValues(r.source, r.route).Set(float64(s.Blocked))
}

// makeOrderMetrics makes the metrics of ordered routes, if there are any. A process that carries
// out effects also reads the states of their streams.
func (a *App) makeOrderMetrics() error {
	routes := a.orderedRoutes()
	if len(routes) == 0 {
		return nil
	}
	labels := make(map[int32]servedRoute, len(routes))
	for id, r := range routes {
		source, route := a.metered.labels(r.source, r.route)
		labels[id] = servedRoute{source, route}
	}
	if err := a.collect(newOrderCollector(labels, a.orderStats)); err != nil {
		return err
	}
	if !a.cfg.Work {
		return nil
	}
	gauges := newOrderGauges()
	if err := a.collect(gauges.all()...); err != nil {
		return err
	}
	told := map[int64]time.Time{} // by stream: since when the logged gap has existed
	read := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, orderGaugesBound)
		defer cancel()
		long := map[int64]time.Time{}
		sums := map[servedRoute]read.StreamStats{}
		for id, r := range routes {
			stats, err := read.CountStreams(ctx, a.adminPool, id, r.warn)
			if err != nil {
				a.log.WarnContext(ctx, "reading how streams stand failed", slog.String("source", r.source), slog.String("route", r.route), slog.Any("error", err))
				return
			}
			sums[labels[id]] = sums[labels[id]].Plus(stats)
			for _, gap := range stats.Long {
				long[gap.Stream] = gap.Since
				if !told[gap.Stream].Equal(gap.Since) {
					a.log.WarnContext(ctx, "a sequence number is missing for long", slog.String("source", r.source), slog.String("route", r.route),
						slog.Int64("stream", gap.Stream), slog.Time("since", gap.Since))
				}
			}
		}
		for r, sum := range sums {
			gauges.set(r, sum)
		}
		told = long
	}
	a.starts = append(a.starts, step{name: "order gauges", run: func(ctx context.Context) error {
		a.readEvery(ctx, "order gauges", orderGaugesEvery, read)
		return nil
	}})
	return nil
}
