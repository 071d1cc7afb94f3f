package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/admin"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
)

// makeAdmin makes the private server. Its checks say whether this process is ready to work.
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
	var err error
	a.private, err = admin.New(admin.Config{Gatherer: a.registry, Logger: a.log, Checks: a.checks, Degraded: a.buffering, Hosts: ConsoleHosts(a.settings)})
	return err
}

// Mount serves handler on the private listener, for everything but /healthz, /readyz and /metrics. Call it once,
// before Start.
func (a *App) Mount(handler http.Handler) { a.private.Mount(handler) }

// OpenPool opens a pool that is closed when the process stops. It is for requests of operators. The parts that accept
// deliveries or work on them have separate pools.
func (a *App) OpenPool(ctx context.Context, name string, size int32) (*pgxpool.Pool, error) {
	return a.openPool(ctx, name, session.PoolAdmin, size)
}

// OnStop registers undo to be called when the process stops, before everything that was opened earlier is closed.
func (a *App) OnStop(name string, undo func(context.Context) error) { a.cleanups.add(name, undo) }

// Deliver returns the handler that accepts deliveries in this process. It is nil without the role, and before Assemble.
func (a *App) Deliver() http.Handler { return a.receiver }

// DevURL returns the address of the development target. It is empty if there is none.
func (a *App) DevURL() string { return a.cfg.DevURL }

// Keyring returns the keys that open sealed data. It is nil if nothing is sealed.
func (a *App) Keyring() *seal.Keyring { return a.keys }

// onceStarted returns a check of a part that may not exist before Start has ended.
func (a *App) onceStarted(ready func() error) func(context.Context) error {
	return func(context.Context) error {
		if !a.started.Load() {
			return nil
		}
		return ready()
	}
}

// Ready returns why this process is not ready, one line for each failed check, or nil if it is. A process that buffers is ready.
// The text contains no secret.
func (a *App) Ready(ctx context.Context) error {
	var errs []error
	failed := map[string]error{}
	for _, check := range a.checks {
		if err := check.Ready(ctx); err != nil {
			failed[check.Name] = err
			errs = append(errs, fmt.Errorf("%s: %w", check.Name, err))
		}
	}
	if a.buffering(failed) != "" {
		return nil
	}
	return errors.Join(errs...)
}

// ConsoleHosts returns the host of console.url, at which people reach the private listener.
func ConsoleHosts(settings *config.Config) []string {
	at, err := url.Parse(settings.Console.URL)
	if err != nil || at.Host == "" {
		return nil
	}
	return []string{at.Hostname()}
}
