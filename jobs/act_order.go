package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// actInOrder carries out an effect inside the database whose claim is committed. The effect and its
// settlement are a second transaction. No lock is held while the handler runs.
func (a attempt) actInOrder(ctx context.Context) error {
	route := a.route
	if route.transactional == nil { // the store knows the route, this client does not
		return a.putBack(ctx, reasons.Route, longPause)
	}
	kind := a.groupKind(inbox.Standing{})
	if route.asksForKey(a.claim) {
		kind = nil // the key may turn out to belong to another effect
	}
	// An effect past its deadline needs no slot at the target.
	if s := a.checkDeadline(0); s != nil {
		return a.actAndSettle(ctx, inbox.Standing{RouteID: a.claim.RouteID}, new(effect.Result))
	}
	left, wait, reason := route.limit.enter(kind != nil)
	if left == nil {
		return a.settle(ctx, a.turnAway(reason, wait))
	}
	var result effect.Result
	defer func() { left(result) }()
	if kind != nil {
		if done, err := a.actInStreams(ctx, kind, &result); done {
			return err
		}
		if wait, yes := route.limit.crowded(); yes {
			return a.settle(ctx, a.turnAway(reasons.Saturated, wait))
		}
	}
	if s, held := a.fetchFirst(ctx); s != nil || !held {
		return a.settleHeld(ctx, s, held)
	}
	timer := time.NewTimer(route.patience())
	defer timer.Stop()
	select {
	case route.turns <- struct{}{}:
		defer func() { <-route.turns }()
	case <-timer.C:
		return a.putBack(ctx, reasons.Saturated, leastParked)
	case <-ctx.Done():
		return a.putBack(ctx, reasons.Stopped, 0)
	}
	if s := a.checkDeadline(a.elapsed()); s != nil {
		return a.settle(ctx, *s) // it passed while the worker waited
	}
	return a.actAndSettle(ctx, inbox.Standing{RouteID: a.claim.RouteID}, &result)
}

// actInStreams carries out an effect that is one statement together with effects of other streams.
// done is false if the effect must run alone because the group did not finish.
func (a attempt) actInStreams(ctx context.Context, kind groupable, noted *effect.Result) (done bool, _ error) {
	statement, args, _, s := a.statement(ctx, kind)
	if statement == "" {
		return true, a.settle(ctx, s)
	}
	asked := a.now()
	a.extendChain(ctx, asked, &s)
	settled, err := a.store.ActOrdered(ctx, a.claim.RouteID, inbox.OrderedAct{Statement: statement, Args: args, End: s})
	switch {
	case errors.Is(err, inbox.ErrLocked):
		// Nothing of the effect has happened. It waits for its stream without holding a lock.
		return true, a.putBack(ctx, reasons.LockTimeout, 0)
	case errors.Is(err, inbox.ErrUngrouped):
		return false, nil // running it alone shows which effect was the cause
	case err != nil:
		return true, a.markUncertain(ctx, "acting in a group", err)
	}
	*noted = effect.Result{Outcome: effect.Done}
	a.report(ctx, s, settled)
	return true, a.follow(ctx, settled, asked)
}
