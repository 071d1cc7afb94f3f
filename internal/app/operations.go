package app

import (
	"cmp"
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/relay"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// outcomeConnections is the size of the pool that reads the outcomes of events.
const outcomeConnections = 4

// makeOperations makes the part that answers operations and duplicates with their outcome, if a
// source needs it.
func (a *App) makeOperations() error {
	wanted := false
	a.operations = map[string]bool{}
	for _, s := range a.settings.Sources {
		a.operations[s.Name] = s.Provider.IsOperation()
		wanted = wanted || s.Provider.IsOperation() || s.AnswerOutcome
	}
	if !wanted {
		return nil
	}
	pool, err := a.openPool(context.Background(), "outcome pool", session.PoolWork, outcomeConnections)
	if err != nil {
		return err
	}
	if err := a.readInstallation(); err != nil {
		return err
	}
	if a.outcomes, err = operation.New(operation.Config{Pool: pool, Keyring: a.keys, Installation: a.installation, Logger: a.log}); err != nil {
		return err
	}
	a.agents = operation.NewAgentSessions(pool)
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oncegate_operations_waiting", Help: "Operations whose callers wait in this process.",
	}, func() float64 { return float64(a.outcomes.Waiting()) })
	if err := a.collect(waiting); err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "operations", run: func(ctx context.Context) error {
		a.cleanups.add("operations", a.outcomes.Stop)
		return a.outcomes.Start(ctx)
	}})
	return nil
}

// settled notifies the callers that wait for an operation that one of its effects has ended in this
// process.
func (a *App) settled(r jobs.Report) {
	if a.outcomes != nil && a.operations[r.Source] && !r.Event.IsZero() {
		a.outcomes.Settled(r.Event)
	}
}

// receiverOutcomes keeps a nil pointer from becoming a non-nil interface.
func (a *App) receiverOutcomes() receiver.Outcomes {
	if a.outcomes == nil {
		return nil
	}
	return a.outcomes
}

// sessionStore keeps a nil pointer from becoming a non-nil interface.
func (a *App) sessionStore() receiver.SessionStore {
	if a.agents == nil {
		return nil
	}
	return a.agents
}

// makeGate makes the gate once, for all parts that admit events.
func (a *App) makeGate() error {
	if a.gate != nil {
		return nil
	}
	var err error
	if err := a.makeRollup(); err != nil { // in a command it does not exist yet
		return err
	}
	if err := a.openGatePool(); err != nil {
		return err
	}
	if err := a.readInstallation(); err != nil {
		return err
	}
	indexer, err := a.makeLabelIndexer()
	if err != nil {
		return err
	}
	limits := a.settings.Gate
	a.gate, err = gate.New(gate.Config{
		Pool: a.gatePool, Acquire: failingAcquire(a.gatePool), Enqueuer: jobs.NewQueue(jobs.QueueConfig{Now: a.cfg.Now}), Clock: a.clock, Logger: a.log, Keyring: a.keys, Installation: a.installation, Counted: a.countEvents,
		Durabilities: a.settings.Durabilities(),
		Labelled:     indexer.Wake,
		QueueEvents:  limits.QueueEvents, QueueBytes: limits.QueueBytes, Deadline: limits.Deadline,
	})
	if err != nil {
		return err
	}
	a.orderStats = append(a.orderStats, a.gate.OrderStats)
	a.starts = append(a.starts, step{name: "gate", run: func(ctx context.Context) error {
		a.cleanups.add("gate", a.gate.Stop)
		a.warnOfDurability(ctx)
		return a.gate.Start(context.WithoutCancel(ctx))
	}})
	return a.collect(receiver.NewGateCollector(a.gate.Stats), a.newDurabilityMetric())
}

// makeRelay makes the relay, which brings emitted events to the gate.
func (a *App) makeRelay() error {
	sources := map[string]*inbox.Source{}
	for _, s := range a.settings.Sources {
		if s.Emit {
			source := a.inboxSource(s)
			sources[cmp.Or(source.KeyName, source.Name)] = source
		}
	}
	cfg := relay.Config{Pool: a.workPool, Clock: a.clock, Logger: a.log, Sources: sources, Fits: a.mayWork, Paused: a.pauses.Source}
	if len(sources) > 0 { // without such sources, the relay only refuses events for sources that were removed
		if err := a.makeGate(); err != nil {
			return err
		}
		cfg.Gate, cfg.Installation = a.gate, a.installation
	}
	emitted, err := relay.New(cfg)
	if err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "relay", run: func(ctx context.Context) error {
		a.cleanups.add("relay", emitted.Stop)
		return emitted.Start(ctx)
	}})
	count := func(name, help string, value func(relay.Stats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(emitted.Stats())) })
	}
	return a.collect(
		count("oncegate_relay_events_total", "Emitted events that were new.", func(s relay.Stats) uint64 { return s.Relayed }),
		count("oncegate_relay_duplicates_total", "Emitted events that had been admitted before.", func(s relay.Stats) uint64 { return s.Duplicates }),
		count("oncegate_relay_conflicts_total", "Emitted events whose id was taken by another payload.", func(s relay.Stats) uint64 { return s.Conflicts }),
		count("oncegate_relay_failures_total", "Emitted events that the gate did not take; they are tried again.", func(s relay.Stats) uint64 { return s.Failed }),
		count("oncegate_relay_refused_total", "Emitted events that can never be admitted; they stay in the outbox for a person.", func(s relay.Stats) uint64 { return s.Refused }),
	)
}

// makeProber makes the prober, which asks targets about indeterminate effects, for the targets that
// can be asked.
func (a *App) makeProber(store *inbox.Effects) error {
	probes := map[string]effect.Prober{}
	routes := map[int32]jobs.RouteProbe{}
	for _, s := range a.settings.Sources {
		for _, r := range s.Routes {
			t := r.Target
			if t.Probe == nil {
				continue
			}
			if probes[t.Name] == nil {
				probe, err := forward.NewProber(probeConfig(t))
				if err != nil {
					return err
				}
				probes[t.Name] = probe
			}
			routes[a.sources[s.Name].Routes[r.Name].ID] = jobs.RouteProbe{
				Route: r.Name, Source: s.Name, Target: t.Name, Prober: probes[t.Name], Every: t.Probe.Every, AbsentAfter: t.Probe.AbsentAfter,
			}
		}
	}
	if len(routes) == 0 {
		return nil
	}
	asked := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oncegate_probes_total", Help: "Questions to targets about indeterminate effects, by answer.",
	}, []string{"source", "route", "target", "outcome"})
	resolved := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oncegate_probe_resolutions_total", Help: "Indeterminate effects that a probe resolved.",
	}, []string{"source", "route", "target"})
	prober, err := jobs.NewProber(jobs.ProberConfig{
		Store: store, Logger: a.log, Routes: routes, Every: a.settings.Work.SweepEvery, Now: a.cfg.Now, Fits: a.mayWork,
		Observe: func(r jobs.ProbeReport) {
			source, route := a.metered.labels(r.Source, r.Route)
			asked.WithLabelValues(source, route, r.Target, string(r.Outcome)).Inc()
			if r.Resolved {
				resolved.WithLabelValues(source, route, r.Target).Inc()
				a.settled(jobs.Report{Source: r.Source, Event: r.Event})
				a.countProbed(&r)
			}
		},
	})
	if err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "prober", run: func(ctx context.Context) error {
		a.cleanups.add("prober", prober.Stop)
		return prober.Start(ctx)
	}})
	return a.collect(asked, resolved)
}

// probeConfig allows the probe the same networks as the target.
func probeConfig(t *config.Target) forward.ProberConfig {
	out := t.Probe.Effect()
	out.Allow = t.Allow
	return out
}

// unsettledMetrics count effects that an operator must look at, and keys that a target recognised.
type unsettledMetrics struct {
	indeterminate, recognised *prometheus.CounterVec
	metered                   metered
}

func newUnsettledMetrics(reg prometheus.Registerer, metered metered) (*unsettledMetrics, error) {
	m := &unsettledMetrics{
		metered: metered,
		indeterminate: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_indeterminate_effects_total", Help: "Effects whose outcome became unknown, when they did.",
		}, []string{"source", "route", "target"}),
		recognised: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oncegate_recognised_keys_total", Help: "Attempts for which the target said that it knew the key.",
		}, []string{"source", "route", "target"}),
	}
	for _, c := range []prometheus.Collector{m.indeterminate, m.recognised} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *unsettledMetrics) observe(r jobs.Report) {
	source, route := m.metered.labels(r.Source, r.Route)
	if r.State == inbox.EffectIndeterminate {
		m.indeterminate.WithLabelValues(source, route, r.Target).Inc()
	}
	if r.Recognised {
		m.recognised.WithLabelValues(source, route, r.Target).Inc()
	}
}
