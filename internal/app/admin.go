package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/inbox/admin"
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
		{Name: "keys", Ready: a.onceStarted(a.checkKeys)},
		{Name: "work", Ready: a.onceStarted(func() error {
			if a.work == nil {
				return nil
			}
			return a.work.Ready()
		})},
		{Name: "clock", Ready: func(context.Context) error { return a.clock.Check() }},
	}
	server, err := admin.New(admin.Config{Gatherer: a.registry, Logger: a.log, Checks: a.checks})
	if err != nil {
		return err
	}
	a.admin = server.NewServer()
	return nil
}

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
