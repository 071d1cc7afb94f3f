package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/sleep"
	"github.com/oncegate/oncegate/jobs/effect"
)

// act carries out an effect inside the database. The claim, the effect and the settlement are one
// transaction, so the effect happens exactly once. If an earlier run did not finish, act commits
// the claim first, because a handler that kills the process must then exhaust its attempts and
// become a dead letter instead of restarting forever.
func (a attempt) act(ctx context.Context, standing inbox.Standing) error {
	route := a.route
	if route.stored.Retry.Over(standing.Age) {
		// It needs no slot at the target because the claim ends it.
		return a.actAndSettle(ctx, standing, new(effect.Result))
	}
	kind := a.groupKind(standing)
	left, wait, reason := route.limit.enter(kind != nil)
	if left == nil {
		return a.postpone(ctx, standing, reason, wait)
	}
	var result effect.Result
	defer func() { left(result) }()
	if kind != nil {
		if done, err := a.actInGroup(ctx, standing, kind, &result); done {
			return err
		}
		if wait, yes := route.limit.crowded(); yes {
			return a.postpone(ctx, standing, reasons.Saturated, wait)
		}
	}
	// The wait for a turn, and then for a connection, is bounded because a worker that waits longer
	// would be missing for effects that can run now.
	turn := time.NewTimer(route.patience())
	defer turn.Stop()
	select {
	case route.turns <- struct{}{}:
		defer func() { <-route.turns }()
	case <-turn.C:
		return a.postpone(ctx, standing, reasons.Saturated, route.limit.later())
	case <-ctx.Done():
		return context.Canceled
	}
	if a.wakeUp.again || standing.Unfinished || route.Fetch != nil {
		claim, at, err := a.claimFirst(ctx, standing)
		if errors.Is(err, inbox.ErrNoConnection) {
			return a.postpone(ctx, standing, reasons.Saturated, route.limit.later())
		}
		if err != nil {
			return a.retryLater(ctx, "claiming an effect", err)
		}
		if standing = at; claim == nil {
			return awaitHolder(standing)
		}
		a.claim, a.committed = claim, true
		if s, held := a.fetchFirst(ctx); s != nil || !held {
			return a.settleHeld(ctx, s, held)
		}
	}
	return a.actAndSettle(ctx, standing, &result)
}

// settleHeld settles an attempt that ended before it acted, if this process still has its claim.
func (a attempt) settleHeld(ctx context.Context, s *inbox.Settlement, held bool) error {
	if !held {
		return nil
	}
	return a.settle(ctx, *s)
}

// claimFirst claims the effect and commits the claim, before a second transaction acts.
func (a attempt) claimFirst(ctx context.Context, standing inbox.Standing) (claim *inbox.Claim, at inbox.Standing, err error) {
	at = standing
	err = a.inTx(ctx, a.route, func(tx pgx.Tx) (err error) {
		claim, at, err = a.store.ClaimTx(ctx, tx, a.wakeUp.effect, a.wakeUp.jobID, standing.RouteID)
		return err
	})
	return claim, at, err
}

// actAndSettle acts and settles in one transaction. If there is no claim yet, the same transaction
// claims. It stores the result of the attempt in noted, for the target's limits.
func (a attempt) actAndSettle(ctx context.Context, standing inbox.Standing, noted *effect.Result) error {
	tx, err := a.store.Begin(ctx, a.route.patience())
	if errors.Is(err, inbox.ErrNoConnection) {
		wait := a.route.limit.later()
		if a.committed {
			return a.putBack(ctx, reasons.Saturated, wait)
		}
		return a.postpone(ctx, standing, reasons.Saturated, wait)
	}
	if err != nil {
		return a.retryLater(ctx, "beginning an effect", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if a.committed {
		mine, err := a.store.FenceTx(ctx, tx, a.claim)
		if err != nil {
			return a.retryLater(ctx, "fencing an effect", err)
		}
		if !mine {
			return nil
		}
	} else {
		a.claim, standing, err = a.store.ClaimTx(ctx, tx, a.wakeUp.effect, a.wakeUp.jobID, standing.RouteID)
		if err != nil {
			return a.retryLater(ctx, "claiming an effect", err)
		}
		if a.claim == nil {
			return awaitHolder(standing)
		}
	}
	if early, held, err := a.check(ctx, tx); err != nil {
		return a.retryLater(ctx, "considering an effect", err)
	} else if !held {
		return nil
	} else if early != nil {
		return a.settleEarly(ctx, tx, early)
	}
	a.span = a.beginTrace(ctx)
	defer a.abandonTrace()
	result, err := a.run(ctx, tx)
	*noted = result
	if result.NoAttempt {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return a.withdraw(ctx, "attempting an effect", errors.New(result.Cause))
	}
	if err != nil || ctx.Err() != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return a.settleApart(ctx, result)
	}
	return a.settleWithin(ctx, tx, a.decide(result))
}

// settleEarly settles an effect that needs no attempt, in the transaction that was opened to act.
func (a attempt) settleEarly(ctx context.Context, tx pgx.Tx, s *inbox.Settlement) error {
	asked := a.now()
	a.extendChain(ctx, asked, s)
	settled, err := a.store.SettleTx(ctx, tx, *s)
	if err == nil {
		err = tx.Commit(ctx)
	}
	if errors.Is(err, inbox.ErrLocked) && a.committed {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return a.settle(ctx, *s)
	}
	if err != nil {
		return a.retryLater(ctx, "settling an effect", err)
	}
	a.report(ctx, *s, settled)
	return a.follow(ctx, settled, asked)
}

// settleWithin settles in the transaction that acted, and commits it.
func (a attempt) settleWithin(ctx context.Context, tx pgx.Tx, s inbox.Settlement) error {
	// From here on a stop only makes the end uncertain.
	firm, cancel := context.WithTimeout(context.WithoutCancel(ctx), margin(a.route.stored.Lease))
	defer cancel()
	asked := a.now()
	a.extendChain(ctx, asked, &s)
	settled, err := a.store.SettleTx(firm, tx, s)
	if errors.Is(err, inbox.ErrLocked) && a.committed {
		// The effect waits for its stream without holding a lock.
		_ = tx.Rollback(context.WithoutCancel(ctx))
		if s.State != inbox.EffectDone {
			return a.settle(ctx, s) // the attempt failed, and nothing of it was left to undo
		}
		// The rollback undoes what the attempt did, so it does not count.
		return a.putBack(ctx, reasons.LockTimeout, 0)
	}
	if err != nil && tablesChanged(err) {
		// Our own statement failed, not what the effect did.
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return a.withdraw(ctx, "settling an effect", err)
	}
	if err == nil && !settled.Applied {
		// Another process has ended the attempt, so what this one did must be rolled back.
		_ = tx.Rollback(context.WithoutCancel(ctx))
		a.report(ctx, s, settled)
		return nil
	}
	if err == nil {
		err = tx.Commit(firm)
	}
	if err == nil {
		a.report(ctx, s, settled)
		return a.follow(ctx, settled, asked)
	}
	_ = tx.Rollback(context.WithoutCancel(ctx))
	var deadOn []string
	if lists, ok := a.route.transactional.(interface{ DeadOn() []string }); ok {
		deadOn = lists.DeadOn()
	}
	if failure := effect.SQLFailure(err, deadOn...); failure.Code != "" && !effect.Ambiguous(err) {
		// The server refused the commit: a deferred constraint, a serialization.
		return a.settleApart(ctx, failure)
	}
	return a.markUncertain(ctx, "committing an effect", err)
}

// markUncertain marks an effect whose transaction may have been committed. The next run sees the
// mark and commits its claim before it acts.
func (a attempt) markUncertain(ctx context.Context, doing string, err error) error {
	if err := a.store.MarkUnfinished(context.WithoutCancel(ctx), a.wakeUp.effect); err != nil {
		return a.retryLater(ctx, "marking an effect", err)
	}
	return a.retryLater(ctx, doing, err)
}

// Both bounds apply to this transaction alone. The planner's settings of the
// pool are for our own statements, not for what the user's function does.
const boundTransaction = `
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true),
    set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true), set_config('enable_bitmapscan', 'on', true),
    set_config('plan_cache_mode', 'auto', true)`

// run lets the kind act. A non-nil error means that the transaction can record nothing any more.
func (a attempt) run(ctx context.Context, tx pgx.Tx) (effect.Result, error) {
	if a.claim.Event.BodyGone {
		return effect.Result{Outcome: effect.Dead, Reason: string(a.claim.Event.GoneReason)}, nil
	}
	lease := a.route.stored.Lease
	left := min(a.route.Timeout, lease-margin(lease)-a.elapsed())
	timed, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	// The server stops a statement a little before we would cut the connection.
	limit := fmt.Sprintf("%dms", max(left-left/10, time.Millisecond).Milliseconds())
	if _, err := tx.Exec(timed, boundTransaction, limit, limit); err != nil {
		return effect.SQLFailure(err), err
	}
	call := a.route.call(a.claim)
	var err error
	result := a.atTarget(timed, call, func(ctx context.Context) (result effect.Result) {
		result, err = safeAct(ctx, tx, a.route.transactional, call)
		return result
	})
	if err == nil && timed.Err() != nil && result.Outcome != effect.Done {
		result.Reason = reasons.SQLTimeout
	}
	return result, err
}

// lockTries is how often settleApart tries to claim a row that is locked: 2 s in all.
const lockTries = 20

// settleApart records the failure of an attempt whose transaction was rolled back, along with
// everything the attempt did.
func (a attempt) settleApart(ctx context.Context, result effect.Result) error {
	if result.Outcome == effect.Done {
		result = effect.Result{Outcome: effect.Retry, Reason: reasons.Unavailable}
	}
	if a.committed {
		return a.finish(ctx, result)
	}
	if ctx.Err() != nil {
		return context.Canceled // nothing was committed, nothing is spent
	}
	var again *inbox.Claim
	var standing inbox.Standing
	var s inbox.Settlement
	var settled inbox.Settled
	// A backend whose connection died reports the error before it releases its row locks. Without
	// this short wait the failed attempt would not be counted.
	for range lockTries {
		err := a.inTx(ctx, a.route, func(tx pgx.Tx) (err error) {
			if again, standing, err = a.store.ClaimTx(ctx, tx, a.wakeUp.effect, a.wakeUp.jobID, a.claim.RouteID); err != nil || again == nil {
				return err
			}
			s = a.of(again).decide(result)
			settled, err = a.store.SettleTx(ctx, tx, s)
			return err
		})
		if err != nil {
			return a.retryLater(ctx, "settling an effect", err)
		}
		if again != nil || !standing.Found || !standing.State.Waiting() {
			break
		}
		if sleep.For(ctx, lockPause/10) != nil {
			return context.Canceled
		}
	}
	if again == nil {
		return awaitHolder(standing)
	}
	a.of(again).report(ctx, s, settled)
	return a.answer(ctx, settled.Standing)
}

// awaitHolder snoozes the job of an effect that another process has claimed. It returns nil if that
// process has just ended the effect.
func awaitHolder(standing inbox.Standing) error {
	if !standing.Found || !standing.State.Waiting() {
		return nil
	}
	return river.JobSnooze(max(standing.Wait, lockPause))
}

// inTx runs do in a transaction, and commits it.
func (c *Client) inTx(ctx context.Context, route *route, do func(pgx.Tx) error) error {
	tx, err := c.store.Begin(ctx, route.patience())
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
