package jobs

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// send makes one attempt at a target outside the database.
func (a attempt) send(ctx context.Context) error {
	claim, route := a.claim, a.route
	if route.sender == nil { // the store knows the route, this client does not
		return a.putBack(ctx, reasons.Route, longPause)
	}
	if s := a.checkContent(ctx); s != nil {
		return a.settle(ctx, *s)
	}
	if claim.Event.BodyGone && (claim.Item == 0 || claim.Rendered == nil) {
		return a.finish(ctx, effect.Result{Outcome: effect.Dead, Reason: string(claim.Event.GoneReason)})
	}
	var left func(effect.Result)
	var result effect.Result
	defer func() {
		if left != nil {
			left(result)
		}
	}()
	if route.Fetch != nil {
		a.forgetUnsent()
		// The slot is taken before the fetch, so that nothing is fetched while the target takes no requests.
		var wait time.Duration
		var reason reasons.Reason
		if left, wait, reason = route.limit.enter(false); left == nil {
			return a.settle(ctx, a.turnAway(reason, wait))
		}
	}
	switch s, held, err := a.check(ctx, nil); {
	case err != nil:
		a.log.WarnContext(ctx, "considering an effect", "effect", claim.Effect.String(), "error", clean(err.Error()))
		return a.putBack(ctx, reasons.Unavailable, faultPause)
	case !held:
		return nil
	case s != nil:
		return a.settle(ctx, *s)
	}
	var prepared []byte
	if route.List != nil {
		var s *inbox.Settlement
		var held bool
		if prepared, s, held = a.prepare(ctx, route.call(claim)); !held {
			return nil
		} else if s != nil {
			return a.settle(ctx, *s)
		}
	}
	if left == nil {
		var wait time.Duration
		var reason reasons.Reason
		if left, wait, reason = route.limit.enter(false); left == nil {
			return a.settle(ctx, a.turnAway(reason, wait))
		}
	}
	call := route.call(claim)
	if err := openRendered(call); err != nil {
		a.log.WarnContext(ctx, "reading what an effect sends", "effect", claim.Effect.String(), "route", route.Name, "error", err.Error())
		return a.finish(ctx, effect.Result{Outcome: effect.Dead, Reason: reasons.Render, Cause: err.Error()})
	}
	rendered, err := route.mapBody(call, claim)
	if err != nil {
		return a.settle(ctx, *a.expressionFailure(ctx, "map", err))
	}
	if prepared != nil {
		rendered = prepared
	}
	if call.Rendered == nil && rendered != nil {
		call.Rendered = rendered
	}
	if call.Rendered == nil {
		if rendered, err = safeRender(route.sender, call); err != nil {
			a.log.WarnContext(ctx, "rendering an effect", "effect", claim.Effect.String(), "route", route.Name, "error", clean(err.Error()))
			return a.finish(ctx, effect.Result{Outcome: effect.Dead, Reason: reasons.Render})
		}
		call.Rendered = rendered
	}
	if s := a.checkRecipient(ctx, call.Rendered); s != nil {
		return a.settle(ctx, *s)
	}
	rendered, fixed, s := a.fixCall(ctx, call, rendered)
	if s != nil {
		return a.settle(ctx, *s)
	}
	if rendered != nil || fixed.replaces || !route.stored.Idempotent {
		mine, err := a.store.StartSend(context.WithoutCancel(ctx), claim, inbox.SendStart{
			Rendered: rendered, Replace: fixed.replaces, Began: !route.stored.Idempotent,
		})
		if err != nil {
			// Nothing was sent, whether or not the start was recorded. The settlement undoes the
			// record: it ends the lease, so a start that is still on its way finds another token.
			// If the database does not answer until the lease ends, the sweeper decides by what it
			// finds.
			a.log.WarnContext(ctx, "starting a send", "effect", claim.Effect.String(), "error", clean(err.Error()))
			return a.putBack(ctx, reasons.Unavailable, a.faultPause(ctx))
		}
		if !mine {
			return nil
		}
	}
	if s := a.checkDeadline(a.elapsed()); s != nil {
		return a.settle(ctx, *s)
	}
	// The time since the claim was requested is subtracted from the lease.
	lease := route.stored.Lease
	timed, cancel := context.WithTimeout(ctx, min(route.Timeout, lease-margin(lease)-a.elapsed()))
	result = effect.Result{Outcome: effect.Retry, Reason: reasons.Timeout}
	if timed.Err() == nil {
		a.span = a.beginTrace(ctx)
		defer a.abandonTrace()
		result = a.atTarget(timed, call, func(ctx context.Context) effect.Result { return safeSend(ctx, route.sender, call) })
	}
	cancel()
	return a.finish(ctx, result)
}
