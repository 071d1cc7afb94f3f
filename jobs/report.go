package jobs

import (
	"context"
	"log/slog"

	"github.com/oncegate/oncegate/inbox"
)

// expired tells people and metrics at once of an attempt that the sweeper had to
// end, as report does of one that a worker ended.
func (c *Client) expired(ctx context.Context, s inbox.Settlement) {
	route := c.cfg.Routes[s.RouteID]
	message, level := "effect lost its lease", slog.LevelInfo
	switch s.State { //nolint:exhaustive // an expired lease leads to one of three
	case inbox.EffectIndeterminate:
		message, level = "effect indeterminate", slog.LevelWarn // a person has to look
	case inbox.EffectDead:
		message, level = "effect dead", slog.LevelWarn
	}
	c.log.LogAttrs(ctx, level, message, //nolint:sloglint // one of the constants above
		slog.String("source", route.Source), slog.String("route", route.Name), slog.String("target", route.Target),
		slog.String("event", s.Event.String()), slog.String("effect", s.Effect.String()), slog.Int("attempt", s.Attempt),
		slog.String("reason", string(s.Reason)))
	if c.cfg.Observe != nil {
		c.cfg.Observe(Report{
			Effect: s.Effect, Event: s.Event, Source: route.Source, Route: route.Name, Target: route.Target, Attempt: s.Attempt,
			State: s.State, Outcome: s.Outcome, Reason: s.Reason,
		})
	}
}
