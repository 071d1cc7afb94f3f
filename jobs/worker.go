package jobs

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs/effect"
)

// pgxTx is the transaction type of River's driver.
type pgxTx = pgx.Tx

// effectWorker works the wake-ups of effects.
type effectWorker struct {
	river.WorkerDefaults[effectArgs]
	client *Client
}

// Work implements [river.Worker]. It completes, snoozes, or on a stop returns
// context.Canceled; it never fails.
func (w *effectWorker) Work(ctx context.Context, job *river.Job[effectArgs]) error {
	defer w.client.analyze.after()
	return w.client.nudge.after(w.client.inTime(ctx, w.client.wake(ctx, wakeUp{effect: job.Args.Effect, jobID: job.ID, again: job.Attempt > 1})))
}

// rearmWorker works the wake-ups that ask for fresh attempts.
type rearmWorker struct {
	river.WorkerDefaults[rearmArgs]
	client *Client
}

// Work implements [river.Worker].
func (w *rearmWorker) Work(ctx context.Context, job *river.Job[rearmArgs]) error {
	n, err := w.client.store.Rearm(ctx, job.Args.Event)
	if err != nil {
		return w.client.nudge.after(w.client.inTime(ctx, w.client.trouble(ctx, "rearming effects", err)))
	}
	if n > 0 {
		w.client.log.InfoContext(ctx, "effects rearmed", "event", job.Args.Event.String(), "effects", n)
	}
	return nil
}

type wakeUp struct {
	effect inbox.ID
	jobID  int64

	// again: River ran this job before and did not see its end.
	again bool

	// chain is what this job goes on with; nil for an effect of no sequence.
	chain *chain
}

func (c *Client) wake(ctx context.Context, w wakeUp) error {
	if ctx.Err() != nil {
		return context.Canceled
	}
	begun := c.now()
	// A claim that was asked for is waited for: given up, it would last its lease.
	claim, standing, err := c.store.Claim(context.WithoutCancel(ctx), w.effect, w.jobID)
	c.claimed.saw(err, c.now())
	if err != nil {
		return c.trouble(ctx, "claiming an effect", err)
	}
	if claim != nil {
		return c.carry(ctx, w, claim, begun)
	}
	if standing.Locked > 0 {
		return river.JobSnooze(standing.Locked + time.Duration(c.random()*float64(standing.Locked)))
	}
	if !standing.Found || !standing.State.Waiting() {
		return nil // at rest, settled, or somebody has it
	}
	if standing.Wait > 0 {
		return river.JobSnooze(standing.Wait)
	}
	if _, known := c.cfg.Routes[standing.RouteID]; !known {
		if c.cfg.Observe != nil {
			c.cfg.Observe(Report{Effect: w.effect, State: standing.State, Reason: inbox.ReasonRoute})
		}
		if c.strays.known(ctx, standing.RouteID) {
			if err := c.handOvers.do(w.jobID, standing.RouteID); err != nil {
				return c.trouble(ctx, "handing an effect over", err)
			}
			return river.JobSnooze(0)
		}
		pause := c.strays.pause(ctx, standing.RouteID)
		if err := c.store.PostponeStray(ctx, w.effect, pause); err != nil {
			return c.trouble(ctx, "postponing an effect", err)
		}
		return river.JobSnooze(pause)
	}
	if route, _ := c.store.Route(standing.RouteID); route.InDatabase && !route.Order.Ordered() {
		return c.act(ctx, w, standing, begun)
	}
	return river.JobSnooze(contended)
}

// send makes one attempt at a target outside the database.
func (c *Client) send(ctx context.Context, w wakeUp, claim *inbox.Claim, begun time.Time) error {
	route := c.cfg.Routes[claim.RouteID]
	known, _ := c.store.Route(claim.RouteID)
	sender := c.cfg.Senders[route.Target]
	if sender == nil { // the store knows the route, this client does not
		return c.settle(ctx, w, claim, putBack(claim, inbox.ReasonRoute, postponed), begun)
	}
	if s := c.keyMissing(ctx, claim); s != nil {
		return c.settle(ctx, w, claim, *s, begun)
	}
	if claim.Event.BodyGone && (claim.Item == 0 || claim.Rendered == nil) {
		return c.finish(ctx, w, claim, effect.Result{Outcome: effect.Dead, Reason: string(claim.Event.GoneReason)}, begun)
	}
	switch s, held, err := c.consider(ctx, nil, claim, route); {
	case err != nil:
		c.log.WarnContext(ctx, "considering an effect", "effect", claim.Effect.String(), "error", clean(err.Error()))
		return c.settle(ctx, w, claim, putBack(claim, inbox.ReasonUnavailable, troubled), begun)
	case !held:
		return nil
	case s != nil:
		return c.settle(ctx, w, claim, *s, begun)
	}
	var prepared []byte
	if lists(claim, route) {
		var s *inbox.Settlement
		var held bool
		if prepared, s, held = c.expand(ctx, claim, route, callOf(claim, route)); !held {
			return nil
		} else if s != nil {
			return c.settle(ctx, w, claim, *s, begun)
		}
	}
	left, wait, reason := c.limits[route.Target].enter(false)
	if left == nil {
		return c.settle(ctx, w, claim, c.park(claim, reason, wait, c.now().Sub(begun)), begun)
	}
	var result effect.Result
	defer func() { left(result) }()
	call := callOf(claim, route)
	rendered, err := mapped(call, claim, route)
	if err != nil {
		return c.settle(ctx, w, claim, *c.unmapped(ctx, claim, route, "map", err), begun)
	}
	if prepared != nil {
		rendered = prepared
	}
	if call.Rendered == nil && rendered != nil {
		call.Rendered = rendered
	}
	if call.Rendered == nil {
		if rendered, err = safeRender(sender, call); err != nil {
			c.log.WarnContext(ctx, "rendering an effect", "effect", claim.Effect.String(), "route", route.Name, "error", clean(err.Error()))
			return c.finish(ctx, w, claim, effect.Result{Outcome: effect.Dead, Reason: string(inbox.ReasonRender)}, begun)
		}
		call.Rendered = rendered
	}
	if rendered != nil || !known.Idempotent {
		mine, err := c.store.StartSend(context.WithoutCancel(ctx), claim, rendered, !known.Idempotent)
		if err != nil {
			// Nothing was sent, whether or not the start was recorded. The settlement takes
			// the record back: once it has ended the lease, a start that is still on its
			// way finds another token. If the database is away until the lease ends, the
			// sweeper decides by what it finds.
			c.log.WarnContext(ctx, "starting a send", "effect", claim.Effect.String(), "error", clean(err.Error()))
			return c.settle(ctx, w, claim, putBack(claim, inbox.ReasonUnavailable, c.troubledFor(ctx)), begun)
		}
		if !mine {
			return nil
		}
	}
	if s := c.pastDeadline(claim, c.now().Sub(begun)); s != nil {
		return c.settle(ctx, w, claim, *s, begun)
	}
	// Whatever was spent since before the claim was asked for is off the lease.
	rest := known.Lease - margin(known.Lease) - c.now().Sub(begun)
	timed, cancel := context.WithTimeout(ctx, min(route.Timeout, rest))
	result = effect.Result{Outcome: effect.Retry, Reason: string(inbox.ReasonTimeout)}
	if timed.Err() == nil {
		result = safeSend(timed, sender, call)
	}
	cancel()
	return c.finish(ctx, w, claim, result, begun)
}

// finish settles an attempt by its result. One that a stop cut short and that
// may be repeated is due at once, on whichever node is next.
func (c *Client) finish(ctx context.Context, w wakeUp, claim *inbox.Claim, result effect.Result, begun time.Time) error {
	route, _ := c.store.Route(claim.RouteID)
	stopped := errors.Is(ctx.Err(), context.Canceled) && (result.Outcome == effect.Retry || result.Outcome == effect.Unknown)
	if stopped {
		result.Reason = string(inbox.ReasonStopped)
	}
	s := decide(claim, route, result, c.now().Sub(begun), c.random)
	if stopped && s.State == inbox.EffectRetry {
		s.After = 0
	}
	return c.settle(ctx, w, claim, s, begun)
}

// settle ends an attempt and tells River what follows. A database that does not
// answer is asked again until the lease ends; after that the sweeper decides.
func (c *Client) settle(ctx context.Context, w wakeUp, claim *inbox.Claim, s inbox.Settlement, begun time.Time) error {
	route, _ := c.store.Route(claim.RouteID)
	firm, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(route.Lease-c.now().Sub(begun), margin(route.Lease)))
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		asked := c.now()
		w.chain.ask(ctx, asked, w, claim, &s)
		settled, err := c.store.Settle(firm, s)
		if err == nil {
			c.report(ctx, claim, s, settled, c.now().Sub(begun))
			return c.follow(ctx, w, settled, asked)
		}
		select {
		case <-firm.Done():
			return c.trouble(ctx, "settling an effect", err)
		case <-time.After(pause):
		}
	}
}

// next is what River hears: done, or wake me then; on a stop, take it back.
func (c *Client) next(ctx context.Context, w wakeUp, standing inbox.Standing) error {
	if !standing.Found || !standing.State.Waiting() || standing.JobID != w.jobID {
		return nil
	}
	if ctx.Err() != nil {
		return context.Canceled
	}
	return river.JobSnooze(max(standing.Wait, 0))
}

// inTime turns what a wake-up ended with into what River hears of it. Ours end with
// context.Canceled when their context has ended; but only on a stop does River take a
// job back for that. At a job's own deadline it would count a failure, and let the
// job wait in its backoff, for minutes after a few, while the effect is due.
func (c *Client) inTime(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.log.InfoContext(ctx, "wake-up ran out of time and is put off")
		return river.JobSnooze(troubled + time.Duration(c.random()*float64(troubled)))
	}
	return err
}

func (c *Client) trouble(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return context.Canceled
	}
	c.log.WarnContext(ctx, "wake-up put off", "doing", doing, "error", clean(err.Error()))
	return river.JobSnooze(c.troubledFor(ctx))
}

// troubledFor gives the wait after a fault of the database. What a stop cuts short is
// due at once, on whichever node is next.
func (c *Client) troubledFor(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	return troubled + time.Duration(c.random()*float64(troubled))
}

// callOf is one attempt at a claim as its kind sees it.
func callOf(claim *inbox.Claim, route Route) *effect.Call {
	e, headers := claim.Event, headersOf(claim.Event.Headers)
	call := &effect.Call{
		Event: effect.Event{
			ID: e.ID.String(), Source: route.Source, Provider: route.Provider, EventID: e.EventID, Type: e.Type,
			OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt, Body: e.Body, ContentType: headers.Get("Content-Type"), Headers: headers,
			Traceparent: e.Traceparent, SequenceNumber: claim.SequenceNumber,
		},
		Route: route.Name, Key: claim.Key, Attempt: claim.Attempt, Rendered: claim.Rendered,
	}
	if claim.SequenceKeyHash != nil {
		// The key itself is not stored; its hash names the sequence as well.
		call.Event.SequenceKey = hex.EncodeToString(claim.SequenceKeyHash)
	}
	return call
}

// headersOf reads the headers kept of a delivery, by their canonical names.
func headersOf(kept []byte) http.Header {
	var h http.Header
	if json.Unmarshal(kept, &h) == nil {
		return h // as the receiver writes them
	}
	h = http.Header{}
	for name, value := range HeaderTexts(kept) {
		h.Set(name, value)
	}
	return h
}

// report tells people and metrics how an attempt ended, if it was still ours to end.
func (c *Client) report(ctx context.Context, claim *inbox.Claim, s inbox.Settlement, settled inbox.Settled, elapsed time.Duration) {
	route := c.cfg.Routes[claim.RouteID]
	attrs := []slog.Attr{
		slog.String("source", route.Source), slog.String("route", route.Name), slog.String("target", route.Target),
		slog.String("event", claim.Event.ID.String()), slog.String("effect", claim.Effect.String()),
	}
	attempt := claim.Attempt
	if s.Outcome == "" {
		attempt = 0 // none was made, and the number is the next one's
	} else {
		attrs = append(attrs, slog.Int("attempt", attempt))
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
	case s.Outcome == "" && s.State.Waiting() && claim.Event.GoneReason == inbox.ReasonKeyMissing:
		message = "" // one line a minute says so of all of them
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
		c.log.LogAttrs(ctx, level, message, attrs...) //nolint:sloglint // one of the constants above
	}
	if c.cfg.Observe != nil && settled.Applied {
		c.cfg.Observe(Report{
			Effect: claim.Effect, Event: claim.Event.ID, Recognised: s.Recognised, Source: route.Source, Route: route.Name, Target: route.Target, Attempt: attempt,
			State: s.State, Outcome: s.Outcome, Reason: s.Reason, Elapsed: elapsed,
		})
	}
}
