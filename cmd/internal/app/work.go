package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/cmd/internal/config"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// makeWork makes the effect worker: the targets, the store of effects and the
// jobs client.
func (a *App) makeWork() error {
	var err error
	ctx := context.Background()
	if a.workPool, err = a.openPool(ctx, "work pool", inbox.PoolWork, a.settings.Database.WorkConnections); err != nil {
		return err
	}
	if a.queuePool, err = a.openPool(ctx, "queue pool", inbox.PoolWork, a.settings.Database.QueueConnections); err != nil {
		return err
	}
	targets, err := a.targets()
	if err != nil {
		return err
	}
	storeRoutes, routes := a.routes()
	store, err := inbox.NewEffects(inbox.EffectsConfig{
		Pool: a.workPool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{Now: a.cfg.Now}), Routes: storeRoutes, Node: a.node,
	})
	if err != nil {
		return err
	}
	metrics, err := newWorkMetrics(a.registry)
	if err != nil {
		return err
	}
	client, err := jobs.New(jobs.Config{
		Pool: a.queuePool, Store: store, Routes: routes,
		Senders: targets.senders, Transactionals: targets.transactionals, Targets: targets.limits,
		Logger: a.log, MaxWorkers: a.settings.Work.Workers, SweepEvery: a.settings.Work.SweepEvery,
		Observe: metrics.observe, Now: a.cfg.Now,
	})
	if err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "jobs", run: func(ctx context.Context) error {
		a.cleanups.add("jobs", client.Stop)
		return client.Start(context.WithoutCancel(ctx))
	}})
	return nil
}

// routes gives every route by id, once for the store and once for the worker.
func (a *App) routes() (map[int32]inbox.EffectRoute, map[int32]jobs.Route) {
	store, worker := map[int32]inbox.EffectRoute{}, map[int32]jobs.Route{}
	for _, s := range a.settings.Sources {
		registered := a.sources[s.Name]
		for _, r := range s.Routes {
			id := registered.Routes[r.Name].ID
			store[id] = inbox.EffectRoute{
				Lease:      a.settings.Work.Lease,
				InDatabase: r.Target.Kind == config.KindSQL,
				// Doing nothing twice is doing nothing.
				Idempotent: r.Target.Idempotent || r.Target.Kind == config.KindNoop,
				Rearms:     s.Rearm,
				Retry:      retryPolicy(r),
			}
			worker[id] = jobs.Route{
				Name: r.Name, Source: s.Name, Provider: s.Provider.Name(), Target: r.Target.Name, Timeout: r.Timeout,
			}
		}
	}
	return store, worker
}

// retryPolicy ends the attempts where the target forgets the key: a later one
// could double the effect.
func retryPolicy(r *config.Route) inbox.RetryPolicy {
	policy := inbox.RetryPolicy{Attempts: r.Retry.Attempts, Base: r.Retry.Base, Max: r.Retry.Max, Deadline: r.Retry.Deadline}
	if window := r.Target.KeyWindow; window > 0 && (policy.Deadline == 0 || policy.Deadline > window) {
		policy.Deadline = window
	}
	return policy
}

type targets struct {
	senders        map[string]effect.Sender
	transactionals map[string]effect.Transactional
	limits         map[string]jobs.Target
}

// targets makes what carries effects out, by the name of the target.
func (a *App) targets() (targets, error) {
	out := targets{
		senders: map[string]effect.Sender{}, transactionals: map[string]effect.Transactional{}, limits: map[string]jobs.Target{},
	}
	var errs []error
	for _, t := range a.settings.Targets {
		out.limits[t.Name] = jobs.Target{Concurrency: t.Concurrency}
		var err error
		switch t.Kind {
		case config.KindForward:
			out.senders[t.Name], err = a.forward(t, t.URL)
		case config.KindDev:
			out.senders[t.Name], err = a.forward(t, a.cfg.DevURL)
		case config.KindSQL:
			out.transactionals[t.Name], err = effect.NewSQL(effect.SQLConfig{Call: t.Call})
		case config.KindNoop:
			out.senders[t.Name] = effect.Noop{}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("target %s: %w", t.Name, err))
		}
	}
	return out, errors.Join(errs...)
}
