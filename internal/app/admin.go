package app

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox/admin"
)

// makeAdmin makes the private server. Its checks say whether this process can
// keep the promise now.
func (a *App) makeAdmin() error {
	server, err := admin.New(admin.Config{
		Gatherer: a.registry, Logger: a.log,
		Checks: []admin.Check{
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
			{Name: "commits", Ready: func(context.Context) error { return a.commits.Ready() }},
			{Name: "gate", Ready: func(context.Context) error {
				if a.gate == nil {
					return nil
				}
				return a.gate.Ready()
			}},
			{Name: "schema", Ready: a.checkSchema},
			{Name: "keys", Ready: func(context.Context) error { return a.checkKeys() }},
			{Name: "work", Ready: func(context.Context) error {
				if a.work == nil {
					return nil
				}
				return a.work.Ready()
			}},
			{Name: "clock", Ready: func(context.Context) error { return a.clock.Check() }},
		},
	})
	if err != nil {
		return err
	}
	a.admin = server.NewServer()
	return nil
}
