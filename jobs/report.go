package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// Report describes how one attempt ended, for metrics and tests.
type Report struct {
	Effect inbox.ID
	Event  inbox.ID
	Source string
	Route  string
	Target string
	// Tenant is the event's tenant, empty if it was recorded without one.
	Tenant string

	// Attempt is the number of the attempt that ended, from 1. It is 0 if no attempt was made;
	// Outcome is then empty, because the effect was put off or reached a resting state without an
	// attempt.
	Attempt int
	State   inbox.EffectState
	Outcome inbox.AttemptOutcome
	Reason  reasons.Reason
	// Code is the target's own code: an HTTP status, an SQLSTATE. It is empty if the target gave none.
	Code    string
	Elapsed time.Duration

	// Recognised means that the target said that it knew the key.
	Recognised bool
}

// report logs how an attempt ended. It passes the end to Config.Observe if this process still held
// the claim.
func (a attempt) report(ctx context.Context, s inbox.Settlement, settled inbox.Settled) {
	claim, route, elapsed := a.claim, a.route, a.elapsed()
	attrs := []slog.Attr{
		slog.String("source", route.Source), slog.String("route", route.Name), slog.String("target", route.Target),
		slog.String("event", claim.Event.ID.String()), slog.String("effect", claim.Effect.String()),
	}
	if id := inbox.TraceID(claim.Event.Traceparent); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	number := claim.Attempt
	if s.Outcome == "" {
		number = 0 // no attempt was made, and claim.Attempt is the number of the next one
	} else {
		attrs = append(attrs, slog.Int("attempt", number))
	}
	if s.Reason != "" {
		attrs = append(attrs, slog.String("reason", string(s.Reason)))
	}
	if s.Failure != "" && s.Failure != s.Reason {
		attrs = append(attrs, slog.String("last_reason", string(s.Failure)))
	}
	if s.Code != "" && s.State != inbox.EffectDone {
		attrs = append(attrs, slog.String("code", s.Code))
	}
	if s.Cause != "" {
		attrs = append(attrs, slog.String("cause", s.Cause))
	}
	message := "effect postponed"
	switch {
	case !settled.Applied:
		message = "effect was taken over"
	case s.State == inbox.EffectDuplicate:
		message = "effect recognised as duplicate"
	case s.State == inbox.EffectSkipped:
		message = "effect skipped"
	case s.Outcome == "" && s.State.Waiting() && claim.Event.GoneReason == reasons.KeyMissing:
		message = "" // checkSealingKey logs one line a minute for all of them
	case s.Outcome == "" && s.State.Waiting():
	case s.State == inbox.EffectDone:
		message = "effect done"
	case s.State == inbox.EffectDead:
		message = "effect dead"
	case s.State == inbox.EffectIndeterminate:
		message = "effect indeterminate"
	default:
		message = "effect retried"
	}
	level := slog.LevelInfo
	if settled.Applied && s.State.AtRest() {
		level = slog.LevelWarn // a person has to look
	}
	if message != "" {
		a.log.LogAttrs(ctx, level, message, attrs...) //nolint:sloglint // one of the constants above
	}
	r := Report{
		Effect: claim.Effect, Event: claim.Event.ID, Tenant: claim.Event.Tenant, Recognised: s.Recognised, Source: route.Source, Route: route.Name, Target: route.Target, Attempt: number,
		State: s.State, Outcome: s.Outcome, Reason: s.Reason, Code: s.Code, Elapsed: elapsed,
	}
	if !settled.Applied {
		a.abandonTrace()
		return
	}
	a.endTrace(ctx, r)
	if a.cfg.Observe != nil {
		a.cfg.Observe(r)
	}
}

// reportExpired logs an attempt that the sweeper had to end and passes it to Config.Observe, as
// report does for a worker.
func (c *Client) reportExpired(ctx context.Context, s inbox.Settlement) {
	route := c.routeOf(s.RouteID)
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
			Effect: s.Effect, Event: s.Event, Tenant: s.Tenant, Source: route.Source, Route: route.Name, Target: route.Target, Attempt: s.Attempt,
			State: s.State, Outcome: s.Outcome, Reason: s.Reason,
		})
	}
}
