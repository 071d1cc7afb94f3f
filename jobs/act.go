package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs/effect"
)

// act carries out an effect inside the database: claim, effect and settlement
// are one transaction, so that it happens exactly once. If an earlier run did
// not end, the claim is committed first: a handler that kills the process then
// uses up its attempts and is dead, instead of starting over for ever.
func (c *Client) act(ctx context.Context, w wakeUp, standing inbox.Standing, begun time.Time) error {
	target := c.cfg.Routes[standing.RouteID].Target
	known, _ := c.store.Route(standing.RouteID)
	if known.Retry.Over(standing.Age) {
		// It needs no place at the target: the claim ends it.
		return c.actClaimed(ctx, w, nil, standing, begun, new(effect.Result))
	}
	kind := c.groups(w, standing)
	left, wait, reason := c.limits[target].enter(kind != nil)
	if left == nil {
		return c.putOff(ctx, w, standing, reason, wait)
	}
	var result effect.Result
	defer func() { left(result) }()
	if kind != nil {
		if done, err := c.actGrouped(ctx, w, standing, kind, begun, &result); done {
			return err
		}
		if wait, yes := c.limits[target].crowded(); yes {
			return c.putOff(ctx, w, standing, inbox.ReasonSaturated, wait)
		}
	}
	// The wait for its turn, and then for a connection, is bounded: a worker that waited
	// for longer would keep others from what need not wait.
	turn := time.NewTimer(c.patience(standing.RouteID))
	defer turn.Stop()
	select {
	case c.acting[target] <- struct{}{}:
		defer func() { <-c.acting[target] }()
	case <-turn.C:
		return c.putOff(ctx, w, standing, inbox.ReasonSaturated, c.limits[target].later())
	case <-ctx.Done():
		return context.Canceled
	}
	var claim *inbox.Claim
	if w.again || standing.Unfinished {
		at := standing
		err := c.inTx(ctx, standing.RouteID, func(tx pgx.Tx) (err error) {
			claim, at, err = c.store.ClaimTx(ctx, tx, w.effect, w.jobID, standing.RouteID)
			return err
		})
		if errors.Is(err, inbox.ErrNoConnection) {
			return c.putOff(ctx, w, standing, inbox.ReasonSaturated, c.limits[target].later())
		}
		if err != nil {
			return c.trouble(ctx, "claiming an effect", err)
		}
		standing = at
		if claim == nil {
			return c.notObtained(standing)
		}
	}
	return c.actClaimed(ctx, w, claim, standing, begun, &result)
}

// actClaimed acts and settles in one transaction; claim is nil if that
// transaction is to claim as well.
func (c *Client) actClaimed(ctx context.Context, w wakeUp, claim *inbox.Claim, standing inbox.Standing, begun time.Time, came *effect.Result) error {
	committed := claim != nil
	tx, err := c.store.Begin(ctx, c.patience(standing.RouteID))
	if errors.Is(err, inbox.ErrNoConnection) {
		wait := c.limits[c.cfg.Routes[standing.RouteID].Target].later()
		if committed {
			return c.settle(ctx, w, claim, putBack(claim, inbox.ReasonSaturated, wait), begun)
		}
		return c.putOff(ctx, w, standing, inbox.ReasonSaturated, wait)
	}
	if err != nil {
		return c.trouble(ctx, "beginning an effect", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if committed {
		mine, err := c.store.FenceTx(ctx, tx, claim)
		if err != nil {
			return c.trouble(ctx, "fencing an effect", err)
		}
		if !mine {
			return nil
		}
	} else {
		claim, standing, err = c.store.ClaimTx(ctx, tx, w.effect, w.jobID, standing.RouteID)
		if err != nil {
			return c.trouble(ctx, "claiming an effect", err)
		}
		if claim == nil {
			return c.notObtained(standing)
		}
	}
	if early, held, err := c.consider(ctx, tx, claim, c.cfg.Routes[claim.RouteID]); err != nil {
		return c.trouble(ctx, "considering an effect", err)
	} else if !held {
		return nil
	} else if early != nil {
		asked := c.now()
		w.chain.ask(ctx, asked, w, claim, early)
		settled, err := c.store.SettleTx(ctx, tx, *early)
		if err == nil {
			err = tx.Commit(ctx)
		}
		if errors.Is(err, inbox.ErrLocked) && committed {
			_ = tx.Rollback(context.WithoutCancel(ctx))
			return c.settle(ctx, w, claim, *early, begun)
		}
		if err != nil {
			return c.trouble(ctx, "settling an effect", err)
		}
		c.report(ctx, claim, *early, settled, c.now().Sub(begun))
		return c.follow(ctx, w, settled, asked)
	}
	result, err := c.attempt(ctx, tx, claim, begun)
	*came = result
	if result.Unmade {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return c.unmade(ctx, w, claim, committed, "attempting an effect", errors.New(result.Cause), begun)
	}
	if err != nil || ctx.Err() != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return c.settleApart(ctx, w, claim, committed, result, begun)
	}
	route, _ := c.store.Route(claim.RouteID)
	s := decide(claim, route, result, c.now().Sub(begun), c.random)
	// From here on a stop only makes the end uncertain.
	firm, cancel := context.WithTimeout(context.WithoutCancel(ctx), margin(route.Lease))
	defer cancel()
	asked := c.now()
	w.chain.ask(ctx, asked, w, claim, &s)
	settled, err := c.store.SettleTx(firm, tx, s)
	if errors.Is(err, inbox.ErrLocked) && committed {
		// What it did does not stay, and the attempt is none. It waits for its stream
		// without holding anything.
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return c.settle(ctx, w, claim, putBack(claim, inbox.ReasonLockTimeout, 0), begun)
	}
	if err != nil && tablesChanged(err) {
		// Our own statement failed, not what the effect did.
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return c.unmade(ctx, w, claim, committed, "settling an effect", err, begun)
	}
	if err == nil && !settled.Applied {
		// Somebody else has ended the attempt: what it did here must not stay.
		_ = tx.Rollback(context.WithoutCancel(ctx))
		c.report(ctx, claim, s, settled, c.now().Sub(begun))
		return nil
	}
	if err == nil {
		err = tx.Commit(firm)
	}
	if err == nil {
		c.report(ctx, claim, s, settled, c.now().Sub(begun))
		return c.follow(ctx, w, settled, asked)
	}
	_ = tx.Rollback(context.WithoutCancel(ctx))
	if failure := effect.SQLFailure(err); failure.Code != "" && !effect.Ambiguous(err) {
		// The server refused the commit: a deferred constraint, a serialization.
		return c.settleApart(ctx, w, claim, committed, failure, begun)
	}
	return c.uncertain(ctx, claim.Effect, "committing an effect", err)
}

// uncertain is for an effect that may have been committed. The next run sees it, and
// is careful.
func (c *Client) uncertain(ctx context.Context, id inbox.ID, doing string, err error) error {
	if err := c.store.MarkUnfinished(context.WithoutCancel(ctx), id); err != nil {
		return c.trouble(ctx, "marking an effect", err)
	}
	return c.trouble(ctx, doing, err)
}

// Both bounds apply to this transaction alone. The planner's settings of the
// pool are for our own statements, not for what the user's function does.
const boundTransaction = `
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true),
    set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true), set_config('enable_bitmapscan', 'on', true),
    set_config('plan_cache_mode', 'auto', true)`

// attempt lets the kind act; err is a transaction that cannot record anything
// any more.
func (c *Client) attempt(ctx context.Context, tx pgx.Tx, claim *inbox.Claim, begun time.Time) (effect.Result, error) {
	route := c.cfg.Routes[claim.RouteID]
	if claim.Event.BodyGone {
		return effect.Result{Outcome: effect.Dead, Reason: string(claim.Event.GoneReason)}, nil
	}
	known, _ := c.store.Route(claim.RouteID)
	left := min(route.Timeout, known.Lease-margin(known.Lease)-c.now().Sub(begun))
	timed, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	// The server stops a statement a little before we would cut the connection.
	limit := fmt.Sprintf("%dms", max(left-left/10, time.Millisecond).Milliseconds())
	if _, err := tx.Exec(timed, boundTransaction, limit, limit); err != nil {
		return effect.SQLFailure(err), err
	}
	result, err := safeAct(timed, tx, c.cfg.Transactionals[route.Target], callOf(claim, route))
	if err == nil && timed.Err() != nil && result.Outcome != effect.Done {
		result.Reason = string(inbox.ReasonSQLTimeout)
	}
	return result, err
}

// locked is how often a row that somebody holds is asked for: 2 s in all.
const locked = 20

// settleApart records the failure of an attempt whose transaction is gone, and
// with it everything the attempt did.
func (c *Client) settleApart(ctx context.Context, w wakeUp, claim *inbox.Claim, committed bool, result effect.Result, begun time.Time) error {
	if result.Outcome == effect.Done {
		result = effect.Result{Outcome: effect.Retry, Reason: string(inbox.ReasonUnavailable)}
	}
	if committed {
		return c.finish(ctx, w, claim, result, begun)
	}
	if ctx.Err() != nil {
		return context.Canceled // nothing was committed, nothing is spent
	}
	route, _ := c.store.Route(claim.RouteID)
	var again *inbox.Claim
	var standing inbox.Standing
	var s inbox.Settlement
	var settled inbox.Settled
	// A backend whose connection died tells it before it lets go of its rows: without
	// a little patience the attempt would count for nothing.
	for range locked {
		err := c.inTx(ctx, claim.RouteID, func(tx pgx.Tx) (err error) {
			if again, standing, err = c.store.ClaimTx(ctx, tx, w.effect, w.jobID, claim.RouteID); err != nil || again == nil {
				return err
			}
			s = decide(again, route, result, c.now().Sub(begun), c.random)
			settled, err = c.store.SettleTx(ctx, tx, s)
			return err
		})
		if err != nil {
			return c.trouble(ctx, "settling an effect", err)
		}
		if again != nil || !standing.Found || !standing.State.Waiting() {
			break
		}
		select {
		case <-ctx.Done():
			return context.Canceled
		case <-time.After(contended / 10):
		}
	}
	if again == nil {
		return c.notObtained(standing)
	}
	c.report(ctx, again, s, settled, c.now().Sub(begun))
	return c.next(ctx, w, settled.Standing)
}

// putOff puts an effect off before it was claimed.
func (c *Client) putOff(ctx context.Context, w wakeUp, standing inbox.Standing, reason inbox.Reason, wait time.Duration) error {
	if c.cfg.Observe != nil {
		route := c.cfg.Routes[standing.RouteID]
		c.cfg.Observe(Report{
			Effect: w.effect, Source: route.Source, Route: route.Name, Target: route.Target, State: standing.State, Reason: reason,
		})
	}
	known, _ := c.store.Route(standing.RouteID)
	wait = known.Retry.Within(standing.Age, wait)
	if err := c.store.Postpone(ctx, w.effect, wait); err != nil {
		return c.trouble(ctx, "postponing an effect", err)
	}
	return river.JobSnooze(wait)
}

// notObtained is for an effect that somebody else has, or has just ended.
func (c *Client) notObtained(standing inbox.Standing) error {
	if !standing.Found || !standing.State.Waiting() {
		return nil
	}
	return river.JobSnooze(max(standing.Wait, contended))
}

// patience is how long an effect of the route waits for its turn, and for a connection.
// Together they leave a committed claim half of its lease.
func (c *Client) patience(routeID int32) time.Duration {
	route, _ := c.store.Route(routeID)
	return min(route.Lease/4, 10*time.Second)
}

func (c *Client) inTx(ctx context.Context, routeID int32, do func(pgx.Tx) error) error {
	tx, err := c.store.Begin(ctx, c.patience(routeID))
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
