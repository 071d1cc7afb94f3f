package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/jobs"
)

// servedRoute is a route of this process, as metrics name it.
type servedRoute struct{ source, route string }

// effectGauges show the states of effects. They are read from the database periodically, with
// bounded counts. A route has no series until one of them is not 0.
type effectGauges struct {
	pending, oldest, dead, indeterminate *prometheus.GaugeVec
	shown                                map[servedRoute]bool
}

func newEffectGauges() *effectGauges {
	return &effectGauges{
		pending:       newRouteGauge("oncegate_pending_effects", "Effects that wait for an attempt, among the 10,000 that are due first."),
		oldest:        newRouteGauge("oncegate_oldest_pending_seconds", "How long ago the oldest of the pending effects was recorded; 0 without one."),
		dead:          newRouteGauge("oncegate_dead_effects", "Dead letters, among the first 10,000 effects of the route that wait for a person."),
		indeterminate: newRouteGauge("oncegate_indeterminate_effects", "Effects whose outcome is unknown, counted up to 10,000."),
		shown:         map[servedRoute]bool{},
	}
}

// backlogOf returns what waits for each route for which something waits.
func backlogOf(stats map[int32]read.EffectStats, sources map[int32]int32) (out []rollup.Backlog) {
	for route, s := range stats {
		if s.Pending > 0 {
			out = append(out, rollup.Backlog{Source: sources[route], Route: route, Waiting: s.Pending, Oldest: s.OldestPending})
		}
	}
	return out
}

// newRouteGauge makes a gauge by source and route.
func newRouteGauge(name, help string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"source", "route"})
}

func (g *effectGauges) set(r servedRoute, s read.EffectStats) {
	if g.shown[r] = g.shown[r] || s != (read.EffectStats{}); !g.shown[r] {
		return
	}
	g.pending.WithLabelValues(r.source, r.route).Set(float64(s.Pending))
	g.oldest.WithLabelValues(r.source, r.route).Set(s.OldestPending.Seconds())
	g.dead.WithLabelValues(r.source, r.route).Set(float64(s.Dead))
	g.indeterminate.WithLabelValues(r.source, r.route).Set(float64(s.Indeterminate))
}

// makeEffectMetrics makes the gauges of a process that carries out effects.
func (a *App) makeEffectMetrics(client *jobs.Client) error {
	routes := map[int32]servedRoute{}
	sources := map[int32]int32{} // by route
	var ids []int32
	for _, s := range a.settings.Sources {
		for _, r := range s.Routes {
			id := a.sources[s.Name].Routes[r.Name].ID
			sources[id] = a.sources[s.Name].ID
			source, route := a.metered.labels(s.Name, r.Name)
			routes[id] = servedRoute{source, route}
			ids = append(ids, id)
		}
	}
	gauges := newEffectGauges()
	if err := a.collect(gauges.pending, gauges.oldest, gauges.dead, gauges.indeterminate, newTargetBreakers(client.Breakers), newFetchBreakers(client.FetchBreakers)); err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "effect gauges", run: func(ctx context.Context) error {
		a.readEvery(ctx, "effect gauges", orderGaugesEvery, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, orderGaugesBound)
			defer cancel()
			stats, err := read.CountEffects(ctx, a.adminPool, ids)
			if err != nil {
				a.log.WarnContext(ctx, "reading how effects stand failed", slog.Any("error", err))
				return
			}
			if err := rollup.WriteBacklog(ctx, a.adminPool, a.clock.Now(), backlogOf(stats, sources)); err != nil {
				a.log.WarnContext(ctx, "the counts of what waits could not be written", slog.Any("error", err))
			}
			sums := map[servedRoute]read.EffectStats{}
			for id, r := range routes {
				sums[r] = sums[r].Plus(stats[id])
			}
			for r, sum := range sums {
				gauges.set(r, sum)
			}
		})
		return nil
	}})
	return nil
}

// breakerCollector shows the states of breakers in this process.
type breakerCollector struct {
	states func() map[string]jobs.BreakerState
	desc   *prometheus.Desc
}

func newTargetBreakers(states func() map[string]jobs.BreakerState) *breakerCollector {
	return &breakerCollector{states: states, desc: prometheus.NewDesc("oncegate_breaker_state",
		"1 for the state that the target's breaker is in, in this process: open makes no attempts, half_open tries one.", []string{"target", "state"}, nil)}
}

func newFetchBreakers(states func() map[string]jobs.BreakerState) *breakerCollector {
	return &breakerCollector{states: states, desc: prometheus.NewDesc("oncegate_fetch_breaker_state",
		"1 for the state that the breaker of a server is in that fetches ask, in this process: open makes no fetches, half_open tries one.", []string{"server", "state"}, nil)}
}

// Describe implements [prometheus.Collector].
func (c *breakerCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements [prometheus.Collector].
func (c *breakerCollector) Collect(out chan<- prometheus.Metric) {
	for name, is := range c.states() {
		if is == jobs.BreakerClosed { // of most targets, all the time
			out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 1, name, string(is))
			continue
		}
		for _, state := range jobs.BreakerStates() {
			value := 0.0
			if state == is {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, value, name, string(state))
		}
	}
}
