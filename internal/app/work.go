package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/mail"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

// The limits of how long a connection of the workers may go without an answer.
const (
	leastSilence = 2 * time.Second
	mostSilence  = 20 * time.Second
)

// jobsStep is the step of the start with which effects begin.
const jobsStep = "jobs"

// makeWork makes the effect worker: the targets, the store of effects and the jobs client.
func (a *App) makeWork() error {
	var err error
	ctx := context.Background()
	// A user's statement may take as long as its attempt, which ends before the lease. River's statements are short,
	// and some of them have no deadline.
	lease := cmp.Or(a.settings.Work.Lease, inbox.DefaultLease)
	if a.workPool, err = a.openPoolWithin(ctx, "work pool", session.PoolWork, a.settings.Database.WorkConnections, max(lease, leastSilence), session.CarriesOut()); err != nil {
		return err
	}
	silence := min(max(lease/3, leastSilence), mostSilence)
	if a.queuePool, err = a.openPoolWithin(ctx, "queue pool", session.PoolQueue, a.settings.Database.QueueConnections, silence); err != nil {
		return err
	}
	if err = a.makeSuppressions(); err != nil {
		return err
	}
	targets, err := a.targets()
	if err != nil {
		return err
	}
	if err := a.readInstallation(); err != nil {
		return err
	}
	storeRoutes, routes, err := a.routes()
	if err != nil {
		return err
	}
	targetsOf := make(map[int32]string, len(storeRoutes))
	for id, r := range storeRoutes {
		targetsOf[id] = r.Target
	}
	routing := int32(1)
	if !a.unasked {
		if routing, err = inbox.RegisterRouting(ctx, a.adminPool, targetsOf); err != nil {
			return err
		}
	}
	store, err := inbox.NewEffects(inbox.EffectsConfig{
		Routing: routing,
		Pool:    a.workPool, Keyring: a.keys, Enqueuer: jobs.NewQueue(jobs.QueueConfig{Now: a.cfg.Now}), Routes: storeRoutes, Node: a.node,
		Standbys: failingStandbys(a.standbys),
		Paused:   func(route int32) bool { return a.pauses.Route(route, targetsOf[route]) },
		Locked:   a.streamLocked, EvidenceOf: mail.MessageID,
	})
	if err != nil {
		return err
	}
	a.history.store = store
	replays, err := replay.New(replay.Config{Pool: a.workPool, Store: store})
	if err != nil {
		return err
	}
	a.orderStats = append(a.orderStats, store.OrderStats)
	metrics, err := newWorkMetrics(a.metrics, a.metered)
	if err != nil {
		return err
	}
	unsettled, err := newUnsettledMetrics(a.metrics, a.metered)
	if err != nil {
		return err
	}
	unsettled.begin(a.settings.Sources, a.metered)
	if err := a.makeProber(store); err != nil {
		return err
	}
	pruner, err := a.makePruner()
	if err != nil {
		return err
	}
	pruning, err := a.newPruneMetrics(pruner)
	if err != nil {
		return err
	}
	var tracer jobs.Tracer
	if a.tracer != nil {
		tracer = a.tracer
	}
	client, err := jobs.New(jobs.Config{
		Tracer: tracer,
		Pool:   a.queuePool, Store: store, Routes: routes, Archive: a.archive, Replays: replays, Deliveries: a.deliveries, Peers: a.fleet.Peers(),
		Transactions: max(int(a.settings.Database.WorkConnections)-4, 1),
		Senders:      targets.senders, Transactionals: targets.transactionals, Targets: targets.limits,
		After: a.clientBefore(), Unchanged: a.targetUnchanged,
		Logger: a.log, MaxWorkers: a.settings.Work.Workers, SweepEvery: a.settings.Work.SweepEvery,
		Observe: func(r jobs.Report) { metrics.observe(r); unsettled.observe(r); a.countEffect(&r); a.settled(r) }, Now: a.cfg.Now,
		Fits: a.mayWork, Prune: pruner, Pruned: pruning.pruned,
	})
	if err != nil {
		return err
	}
	a.work = client
	if err := a.makeKeyMetrics(); err != nil {
		return err
	}
	if err := a.makeEffectMetrics(client); err != nil {
		return err
	}
	if err := a.makeNotifications(); err != nil {
		return err
	}
	if err := a.makeOutsideMetrics(); err != nil {
		return err
	}
	if err := a.makeStrandedMetric(); err != nil {
		return err
	}
	if err := a.countPulledBack(store); err != nil {
		return err
	}
	if err := a.countMissingKeys(); err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: jobsStep, run: func(ctx context.Context) error {
		a.cleanups.add("jobs", client.Stop)
		a.chores = slices.Insert(a.chores, 0, client.Sweep) // readiness depends on it
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		return a.announce(ctx, slices.Collect(maps.Keys(routes)))
	}})
	return nil
}

// clientBefore returns the client of the App whose place this one takes, or nil.
func (a *App) clientBefore() *jobs.Client {
	if a.parts.After == nil {
		return nil
	}
	return a.parts.After.work
}

// targetUnchanged reports whether the target is configured as in the App whose place this one takes.
func (a *App) targetUnchanged(name string) bool {
	return config.SameTarget(a.parts.After.settings, a.settings, name)
}

// deliveries returns what the gate of this process has answered. There may be no gate.
func (a *App) deliveries() (answered uint64, waited time.Duration) {
	if a.gate == nil {
		return 0, 0
	}
	stats := a.gate.Stats()
	return stats.Answered, stats.Waited
}

// routes returns every route by id, once for the store and once for the worker.
func (a *App) routes() (map[int32]inbox.EffectRoute, map[int32]jobs.Route, error) {
	var errs []error
	store, worker := map[int32]inbox.EffectRoute{}, map[int32]jobs.Route{}
	for _, s := range a.settings.Sources {
		registered := a.sources[s.Name]
		for _, r := range s.Routes {
			id := registered.Routes[r.Name].ID
			kept := inbox.EffectRoute{
				Target:     r.Target.Name,
				Lease:      a.settings.Work.Lease,
				InDatabase: r.Target.Kind == config.KindSQL || r.Target.Kind == config.KindSuppress || a.parts.Handlers[r.Target.Name].inDatabase(r.Target),
				// Doing nothing twice is harmless.
				Idempotent: r.Target.Idempotent || r.Target.Kind == config.KindNoop || a.parts.Handlers[r.Target.Name].deduplicates(r.Target),
				Rearms:     s.Rearm,
				Shadow:     s.Shadow,
				Order:      r.Order.Policy,
				Series:     a.series[id],
				Retry: inbox.RetryPolicy{
					Attempts: r.Retry.Attempts, Base: r.Retry.Base, Max: r.Retry.Max, Deadline: r.Retry.Deadline,
				},
			}
			if !r.AssumeIdempotent {
				kept.KeyWindow = r.Target.KeyWindow
			}
			if r.Key != nil {
				kept.KeyKeep, kept.KeyWithin = r.Key.Keep, r.Key.Within
			}
			store[id] = kept
			var err error
			route := jobs.Route{
				Name: r.Name, Version: int(registered.Routes[r.Name].Version), Source: s.Name, KeySource: a.keySource(s), Provider: s.Provider.Name(), Target: r.Target.Name, Timeout: r.Timeout,
				When: r.When, Map: r.Map,
			}
			if r.Fetch != nil {
				if route.Fetch, err = a.fetch(r.Fetch); err != nil {
					errs = append(errs, fmt.Errorf("route %s/%s: fetch: %w", s.Name, r.Name, err))
				}
			}
			if s.Provider.Wraps() {
				route.Document = s.Provider.Document
			}
			if r.Mail != nil {
				if route.List, err = list(r); err != nil {
					errs = append(errs, fmt.Errorf("route %s/%s: %w", s.Name, r.Name, err))
				}
				route.Suppressed = a.suppressed(r.Target.Name)
			}
			if r.Key != nil {
				route.Key = r.Key.Recipe
				if r.Key.Within == 0 {
					route.KeyOf = a.keyOf(a.keySource(s), cmp.Or(registered.Routes[r.Name].KeyName, r.Name))
				}
			}
			worker[id] = route
		}
	}
	return store, worker, errors.Join(errs...)
}

// keyOf returns the function that makes the idempotency keys of a route's effects from its recipe. source and route are
// the names under which the two were first registered.
func (a *App) keyOf(source, route string) func(recipe []byte) string {
	return func(recipe []byte) string { return inbox.MeaningKey(a.installation.Value, source, route, recipe) }
}

// list returns how the messages of a route are made, one for each recipient.
func list(r *config.Route) (*jobs.List, error) {
	cfg, err := r.MessageConfig(func(call *effect.Call) (any, error) { return r.Mail.Attachments.Value(jobs.Input(call)) })
	if err != nil {
		return nil, err
	}
	m, err := mail.NewMessage(cfg)
	if err != nil {
		return nil, err
	}
	return &jobs.List{
		Items: r.Mail.To, Meaning: mail.Recipient, Check: mail.CheckRecipient, ItemOf: mail.RecipientOf, Render: m.Render,
	}, nil
}

// concurrency returns the most attempts that this process makes at a target at once; 0 is no limit.
// A mail server refuses a client with too many connections (Postfix takes 50,
// https://www.postfix.org/postconf.5.html#smtpd_client_connection_count_limit), and each message
// that is under way when a process is killed waits for a person.
func concurrency(t *config.Target) int {
	if t.Kind == config.KindMail {
		return cmp.Or(t.Concurrency, 20)
	}
	return t.Concurrency
}

func mailSender(t *config.Target) (effect.Sender, error) {
	m, err := mail.New(t.MailConfig())
	if err != nil {
		return nil, err
	}
	return failingSender(m), nil
}

// parameters returns the values of a statement's parameters.
func parameters(t *config.Target) map[string]sql.Parameter {
	out := make(map[string]sql.Parameter, len(t.Parameters))
	for name, p := range t.Parameters {
		out[name] = func(call *effect.Call) (any, error) { return p.Value(jobs.Input(call)) }
	}
	return out
}

type targets struct {
	senders        map[string]effect.Sender
	transactionals map[string]effect.Transactional
	limits         map[string]jobs.Target
}

// targets makes the senders and transactionals by the name of the target.
func (a *App) targets() (targets, error) {
	out := targets{
		senders: map[string]effect.Sender{}, transactionals: map[string]effect.Transactional{}, limits: map[string]jobs.Target{},
	}
	var errs []error
	for _, t := range a.settings.Targets {
		out.limits[t.Name] = jobs.Target{
			Concurrency: concurrency(t), Greedy: t.Concurrency != 0, Rate: t.Rate.N, Per: t.Rate.Per, Failures: t.Breaker.Failures, Open: t.Breaker.Open,
		}
		var err error
		switch t.Kind {
		case config.KindForward:
			out.senders[t.Name], err = a.forward(t, t.URL)
		case config.KindDev:
			out.senders[t.Name], err = a.forward(t, a.cfg.DevURL)
		case config.KindSQL:
			out.transactionals[t.Name], err = sql.New(sql.Config{Call: t.Call, Statement: t.Statement, Parameters: parameters(t), DeadOn: t.DeadOn, KeepReply: t.KeepReply})
		case config.KindMail:
			out.senders[t.Name], err = mailSender(t)
		case config.KindPublish:
			out.senders[t.Name], err = a.publisher(t)
		case config.KindSuppress:
			out.transactionals[t.Name], err = a.suppressTarget(t)
		case config.KindNoop:
			out.senders[t.Name] = effect.Noop{}
		case config.KindHandler:
			a.parts.Handlers[t.Name].add(&out, t.Name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("target %s: %w", t.Name, err))
		}
	}
	return out, errors.Join(errs...)
}
