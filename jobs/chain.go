package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A worker that has ended one effect of a sequence goes on with the next, for so many
// effects or so long; after that it makes room for others.
const (
	longestChain = 100
	chainFor     = 10 * time.Second
)

// chain is what one job does of one sequence.
type chain struct {
	began  time.Time
	length int

	// next was claimed when the one before it was settled; the settlement was asked
	// for at asked, so that the lease is no older.
	next  *inbox.Claim
	asked time.Time
}

// ask has a settlement, asked for at now, claim the effect that follows, if the worker
// may go on.
func (h *chain) ask(ctx context.Context, now time.Time, w wakeUp, claim *inbox.Claim, s *inbox.Settlement) {
	if h == nil {
		return
	}
	s.NewJob = h.length > 0
	s.Chain, s.Of = 0, claim
	if h.length+1 < longestChain && now.Sub(h.began) < chainFor && ctx.Err() == nil {
		s.Chain = w.jobID
	}
}

// follow takes what a settlement claimed, and says what River hears of the effect
// that was settled.
func (c *Client) follow(ctx context.Context, w wakeUp, settled inbox.Settled, asked time.Time) error {
	if settled.Next != nil && w.chain != nil {
		w.chain.next, w.chain.asked = settled.Next, asked
		return nil
	}
	return c.next(ctx, w, settled.Standing)
}

// carry makes an attempt for a claim and, in a sequence, goes on with what follows.
func (c *Client) carry(ctx context.Context, w wakeUp, claim *inbox.Claim, begun time.Time) error {
	route, _ := c.store.Route(claim.RouteID)
	if route.Order.Ordered() && claim.SequenceKeyHash != nil {
		w.chain = &chain{began: begun}
	}
	for {
		attempt := c.send
		if route.InDatabase {
			attempt = c.actInOrder
		}
		err := attempt(ctx, w, claim, begun)
		if w.chain == nil || w.chain.next == nil {
			return err
		}
		claim, begun = w.chain.next, w.chain.asked
		w.chain.next = nil
		w.chain.length++
		w.effect = claim.Effect
	}
}

// actInOrder carries out an effect inside the database whose claim is committed: the
// effect and its settlement are a second transaction, and nothing is locked while
// the handler runs.
func (c *Client) actInOrder(ctx context.Context, w wakeUp, claim *inbox.Claim, begun time.Time) error {
	target := c.cfg.Routes[claim.RouteID].Target
	if c.cfg.Transactionals[target] == nil { // the store knows the route, this client does not
		return c.settle(ctx, w, claim, putBack(claim, inbox.ReasonRoute, postponed), begun)
	}
	kind := c.groups(w, inbox.Standing{RouteID: claim.RouteID})
	if keyed(claim, c.cfg.Routes[claim.RouteID]) {
		kind = nil // it may turn out to be another's
	}
	// An effect whose time is over needs no place at the target.
	if s := c.pastDeadline(claim, 0); s != nil {
		return c.actClaimed(ctx, w, claim, inbox.Standing{RouteID: claim.RouteID}, begun, new(effect.Result))
	}
	left, wait, reason := c.limits[target].enter(kind != nil)
	if left == nil {
		return c.settle(ctx, w, claim, c.park(claim, reason, wait, c.now().Sub(begun)), begun)
	}
	var result effect.Result
	defer func() { left(result) }()
	if kind != nil {
		if done, err := c.actInStreams(ctx, w, claim, kind, begun, &result); done {
			return err
		}
		if wait, yes := c.limits[target].crowded(); yes {
			return c.settle(ctx, w, claim, c.park(claim, inbox.ReasonSaturated, wait, c.now().Sub(begun)), begun)
		}
	}
	timer := time.NewTimer(c.patience(claim.RouteID))
	defer timer.Stop()
	select {
	case c.acting[target] <- struct{}{}:
		defer func() { <-c.acting[target] }()
	case <-timer.C:
		return c.settle(ctx, w, claim, putBack(claim, inbox.ReasonSaturated, leastParked), begun)
	case <-ctx.Done():
		return c.settle(ctx, w, claim, putBack(claim, inbox.ReasonStopped, 0), begun)
	}
	if s := c.pastDeadline(claim, c.now().Sub(begun)); s != nil {
		return c.settle(ctx, w, claim, *s, begun) // it passed while the worker waited
	}
	return c.actClaimed(ctx, w, claim, inbox.Standing{RouteID: claim.RouteID}, begun, &result)
}

// actInStreams carries out an effect that is one statement together with those of
// other sequences. done is false if it has to be carried out by itself, because the
// group did not come to an end.
func (c *Client) actInStreams(ctx context.Context, w wakeUp, claim *inbox.Claim, kind groupable, begun time.Time, came *effect.Result) (done bool, _ error) {
	statement, args, s := c.actOf(ctx, claim, kind, begun)
	if statement == "" {
		return true, c.settle(ctx, w, claim, s, begun)
	}
	asked := c.now()
	w.chain.ask(ctx, asked, w, claim, &s)
	settled, err := c.store.ActOrdered(ctx, claim.RouteID, inbox.OrderedAct{Statement: statement, Args: args, End: s})
	switch {
	case errors.Is(err, inbox.ErrLocked):
		// Nothing of it has happened. It waits for its stream without holding anything.
		return true, c.settle(ctx, w, claim, putBack(claim, inbox.ReasonLockTimeout, 0), begun)
	case errors.Is(err, inbox.ErrUngrouped):
		return false, nil // by itself it is seen which one was the cause
	case err != nil:
		return true, c.uncertain(ctx, claim.Effect, "acting in a group", err)
	}
	*came = effect.Result{Outcome: effect.Done}
	c.report(ctx, claim, s, settled, c.now().Sub(begun))
	return true, c.follow(ctx, w, settled, asked)
}
