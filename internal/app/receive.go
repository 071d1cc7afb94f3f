package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
)

// makeReceive makes the gate, the store of refusals and the public receiver.
func (a *App) makeReceive() error {
	if err := a.makeGate(); err != nil {
		return err
	}
	refusals, err := refusal.New(refusal.Config{Pool: a.adminPool, Keyring: a.keys, Logger: a.log, Now: a.cfg.Now})
	if err != nil {
		return err
	}
	metrics, err := receiver.NewMetrics(a.metrics)
	if err != nil {
		return err
	}
	if err := a.collect(receiver.NewRefusalsCollector(refusals.Stats), receiver.NewClockCollector(a.clock.Stats)); err != nil {
		return err
	}
	if err := a.makeBuffer(); err != nil {
		return err
	}
	sources := make(map[string]*receiver.Source, len(a.settings.Sources))
	keys, err := a.makeKeys()
	if err != nil {
		return err
	}
	for _, s := range a.settings.Sources {
		secrets := s.Keys()
		var published outside = keys.Source(s.Name)
		if a.cfg.keysOf != nil {
			published = a.cfg.keysOf(s.Name)
		}
		id := a.sources[s.Name].ID
		provider, err := bound(s, published)
		if err != nil {
			return err
		}
		if provider.Unproved() {
			a.log.Warn("source takes requests that nothing proves", slog.String("source", s.Name))
		}
		sources[s.Name] = &receiver.Source{
			Disabled:      s.Disabled,
			Buffered:      a.buffered != nil && a.settings.Buffers(s),
			Consumed:      s.From != nil,
			Unserved:      !s.OverHTTP(),
			Deliveries:    quotaOf(s.Deliveries),
			MetricLabel:   a.metered.source(s.Name),
			FailureLimit:  s.Provider.Spec().Windows.Failures,
			PreviousNames: s.Previous.Names,
			Paused:        func() bool { return a.pauses.Source(id) },
			Sessions:      receiver.SessionLimits{Longest: s.Sessions.Longest},
			Inbox:         a.inboxSource(s), Provider: provider, ExternalURL: s.ExternalURL, MaxBody: s.MaxBody,
			Secrets:     func() []providers.Secret { return secrets },
			Credentials: callersOf(s), Keep: passedHeaders(s), NewKeys: s.Operation.NewKeys, LongestWait: s.Operation.Wait, AnswerOutcome: s.AnswerOutcome,
			Operations: declaredOperations(s), MinKey: s.Operation.MinKey, KeyFields: s.Operation.Key, Repeats: receiver.Repeats(s.Operation.Repeats),
		}
	}
	now := a.clock.Now
	if a.cfg.receiveNow != nil {
		now = a.cfg.receiveNow
	}
	tenantKeys, tenantDeliveries := tenantQuotas(a.settings)
	var tracer receiver.Tracer
	if a.tracer != nil {
		tracer = a.tracer
	}
	var refused receiver.RefusalKeeper = refusals
	if a.waiting != nil {
		refused = nil // a refusal needs the id of its source
	}
	rcv, err := receiver.New(receiver.Config{
		Tracer:   tracer,
		Buffer:   a.buffered.accepter(),
		Sessions: a.sessionStore(),
		Gate:     a.accepter(), Sources: sources, Outcomes: a.receiverOutcomes(), Refusals: refused, Installation: a.installation, Metrics: metrics, Rollup: a.rollup, Logger: a.log, Node: a.node, LogEvery: a.cfg.LogFolds,
		Now: now, Doubted: a.clock.Doubted, SystemNow: a.cfg.Now, TrustedProxies: a.settings.Listen.TrustedProxies, BodyLimits: a.settings.Bodies,
		TenantKeys: tenantKeys, TenantDeliveries: tenantDeliveries, After: a.receiverBefore(),
	})
	if err != nil {
		return err
	}
	a.taker, a.receiver = rcv, rcv.Handler()
	if a.waiting != nil {
		a.receiver = a.waitingReceiver(a.receiver)
	}
	if a.parts.Listen {
		if err := a.makePublic(); err != nil {
			return err
		}
	}
	a.starts = append(a.starts,
		step{name: "refusals", run: func(ctx context.Context) error {
			a.cleanups.add("refusals", refusals.Stop)
			return refusals.Start(context.WithoutCancel(ctx))
		}},
	)
	return a.makeConsumers()
}

// accepter returns the gate as deliveries enter it.
func (a *App) accepter() receiver.Accepter {
	if a.waiting != nil {
		return awayGate{}
	}
	return failingGate(&fittingGate{a.gate, &a.fit})
}

// receiverBefore returns the receiver of the App whose place this one takes, or nil.
func (a *App) receiverBefore() *receiver.Receiver {
	if a.parts.After == nil {
		return nil
	}
	return a.parts.After.taker
}

// makePublic makes the server of the public listener, unless this App takes it over.
func (a *App) makePublic() (err error) {
	l := a.listeners
	if a.parts.After == nil {
		if l.public, l.connections, err = a.publicServer(l.handler(func(a *App) *door { return a.door })); err != nil {
			return err
		}
	}
	return a.collect(receiver.NewConnectionsCollector(l.connections.Stats))
}

// passedHeaders returns the headers that targets of the source get, and those that say where a message was in its broker.
func passedHeaders(s *config.Source) (names []string) {
	if s.From != nil {
		names = append(names, receiver.HeaderPosition, receiver.HeaderLane, receiver.HeaderTime)
	}
	for _, r := range s.Routes {
		names = append(names, r.Target.PassHeaders...)
	}
	return names
}

// outside is everything that verification may contact.
type outside interface {
	providers.Fetcher
	providers.Asker
}

// bound returns a source's provider with the source's settings.
func bound(s *config.Source, o outside) (*providers.Provider, error) {
	provider, err := s.Provider.Bind(providers.Binding{Settings: s.Values(), Fetcher: o, Asker: o})
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", s.Name, err)
	}
	return provider, nil
}

// inboxSource returns a source as the gate needs it, with the ids of its rows.
func (a *App) inboxSource(s *config.Source) *inbox.Source {
	registered := a.sources[s.Name]
	out := &inbox.Source{
		ID: registered.ID, Name: s.Name, KeyName: registered.KeyName, Class: s.Class, Durability: a.settings.Durability(s), Tenant: s.Tenant, Strict: s.Provider.IsOperation(), Rearm: s.Rearm, Shadow: s.Shadow,
		Tombstone: s.Keep.Tombstone, SequenceTimes: publishesTimes(s),
		Canonical: s.Provider.Canonical, Differences: s.Provider.Differences, Comparisons: comparisons(s), Shown: shown(s),
		Labels: a.labelsOf(s, registered),
	}
	for _, r := range s.Routes {
		row := registered.Routes[r.Name]
		out.Routes = append(out.Routes, inbox.Route{
			ID: row.ID, Name: r.Name, KeyName: row.KeyName, Version: row.Version, Types: r.Types, Target: r.Target.Name, Kind: storedKind(r.Target.Kind),
			Order: r.Order.Policy, Series: a.series[row.ID], Sequence: sequenceOf(a.keySource(s), s, r),
		})
	}
	return out
}
