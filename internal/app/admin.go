package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/admin"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/session"
)

// makeAdmin makes the private server. Its checks say whether this process can
// keep the promise now.
func (a *App) makeAdmin() error {
	a.checks = []admin.Check{
		{Name: "process", Ready: func(context.Context) error {
			switch {
			case a.draining.Load():
				return errors.New("stopping")
			case !a.started.Load():
				return errors.New("starting")
			}
			return nil
		}},
		{Name: "database", Ready: a.checkDatabase},
		{Name: "commits", Ready: a.onceStarted(func() error { return a.commits.Ready() })},
		{Name: "gate", Ready: a.onceStarted(func() error {
			if a.gate == nil {
				return nil
			}
			return a.gate.Ready()
		})},
		{Name: "schema", Ready: a.checkSchema},
		{Name: "history", Ready: a.onceStarted(a.checkHistory)},
		{Name: "keys", Ready: a.onceStarted(a.checkKeys)},
		{Name: "work", Ready: a.onceStarted(func() error {
			if a.work == nil {
				return nil
			}
			return a.work.Ready()
		})},
		{Name: "clock", Ready: func(context.Context) error { return a.clock.Check() }},
	}
	private, err := admin.New(admin.Config{Gatherer: a.registry, Logger: a.log, Checks: a.checks})
	if err != nil {
		return err
	}
	a.private, a.admin = private, private.NewServer()
	return nil
}

// Mount serves handler on the private listener, for everything but /healthz, /readyz and /metrics. It is called before
// Start, once.
func (a *App) Mount(handler http.Handler) { a.private.Mount(handler) }

// OpenPool opens a pool that is closed when the process stops. It is for what people ask for; what takes or works on
// deliveries has pools of its own.
func (a *App) OpenPool(ctx context.Context, name string, size int32) (*pgxpool.Pool, error) {
	return a.openPool(ctx, name, session.PoolAdmin, size)
}

// OnStop has undo called when the process stops, before what was opened until now is closed.
func (a *App) OnStop(name string, undo func(context.Context) error) { a.cleanups.add(name, undo) }

// Deliver is what takes deliveries of this process; nil without the role, and before Assemble.
func (a *App) Deliver() http.Handler { return a.receiver }

// DevURL is the address of the development target; empty where there is none.
func (a *App) DevURL() string { return a.cfg.DevURL }

// Keyring opens what is sealed; it is nil where nothing is.
func (a *App) Keyring() *seal.Keyring { return a.keys }

// onceStarted is a check of a part that may not be made yet.
func (a *App) onceStarted(ready func() error) func(context.Context) error {
	return func(context.Context) error {
		if !a.started.Load() {
			return nil
		}
		return ready()
	}
}

// Ready returns why this process cannot keep the promise now, one line for each check that
// fails; nil if it can. The text holds no secret.
func (a *App) Ready(ctx context.Context) error {
	var errs []error
	for _, check := range a.checks {
		if err := check.Ready(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", check.Name, err))
		}
	}
	return errors.Join(errs...)
}
