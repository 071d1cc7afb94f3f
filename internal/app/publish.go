package app

import (
	"context"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/publish"
)

// publisher makes the sender of a target at a message broker. Its connections end with the App.
func (a *App) publisher(t *config.Target) (effect.Sender, error) {
	sender, err := publish.New(t.PublishConfig(func(program *expression.Program) publish.Value {
		return func(call *effect.Call) (string, error) { return program.Text(jobs.RequestInput(call)) }
	}))
	if err != nil {
		return nil, err
	}
	a.cleanups.add("target "+t.Name, func(context.Context) error { sender.Close(); return nil })
	return failingSender(sender), nil
}
