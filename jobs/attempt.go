package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/sleep"
	"github.com/oncegate/oncegate/jobs/effect"
)

// attempt is one attempt at an effect: the wake-up that led to it, the claim and the route. It is
// passed by value, so it costs no allocation. Other attempts may share what it points to.
type attempt struct {
	*Client
	wakeUp wakeUp
	route  *route

	// claim is nil until there is one. It is committed if a transaction other than the
	// settling one made it. Then only a settlement can return it.
	claim     *inbox.Claim
	committed bool

	// span is nil until the attempt reaches the target, and if nothing is traced.
	span AttemptSpan

	// begun is when the claim was requested. Its lease did not start before that.
	begun time.Time
}

// elapsed is how long the attempt has taken since its claim was asked for.
func (a attempt) elapsed() time.Duration { return a.now().Sub(a.begun) }

// carryOut makes an attempt for a committed claim. In a stream it then carries out the effects that
// follow.
func (c *Client) carryOut(ctx context.Context, w wakeUp, claim *inbox.Claim, begun time.Time) error {
	a := attempt{Client: c, wakeUp: w, route: c.routeOf(claim.RouteID), claim: claim, committed: true, begun: begun}
	if a.route.stored.Order.Ordered() && claim.SequenceKeyHash != nil {
		a.wakeUp.chain = &chain{began: begun}
		if claim.Effect != w.effect { // a newer version of the effect than the one that the job names
			a.wakeUp.effect, a.wakeUp.chain.length = claim.Effect, 1
		}
	}
	for {
		var err error
		switch {
		case a.claim.Shadow:
			err = a.rehearse(ctx)
		case a.route.stored.InDatabase:
			err = a.actInOrder(ctx)
		default:
			err = a.send(ctx)
		}
		if !a.wakeUp.chain.advance(&a) {
			c.keepPlace(ctx, a.wakeUp)
			return err
		}
	}
}

// decide turns the result of the attempt into its settlement.
func (a attempt) decide(result effect.Result) inbox.Settlement {
	return decideSettlement(a.claim, &a.route.stored, result, a.elapsed(), a.random)
}

// finish settles an attempt by its result. If a stop cut the attempt short and it may be repeated,
// it is due at once, on any node.
func (a attempt) finish(ctx context.Context, result effect.Result) error {
	return a.settle(ctx, a.ended(ctx, result))
}

// ended returns how an attempt ends by its result, as finish settles it.
func (a attempt) ended(ctx context.Context, result effect.Result) inbox.Settlement {
	stopped := errors.Is(ctx.Err(), context.Canceled) && (result.Outcome == effect.Retry || result.Outcome == effect.Unknown)
	if stopped {
		result.Reason = reasons.Stopped
	}
	s := a.decide(result)
	if stopped && s.State == inbox.EffectRetry {
		s.After = 0
	}
	return s
}

// putBack returns a claim for which no attempt was made.
func (a attempt) putBack(ctx context.Context, reason reasons.Reason, after time.Duration) error {
	return a.settle(ctx, putBack(a.claim, reason, after))
}

// settle ends an attempt and returns what River needs to know. If the database does not answer,
// settle repeats the call until the lease ends. After that the sweeper decides.
func (a attempt) settle(ctx context.Context, s inbox.Settlement) error {
	lease := a.route.stored.Lease
	firm, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(lease-a.elapsed(), margin(lease)))
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		asked := a.now()
		a.extendChain(ctx, asked, &s)
		settled, err := a.store.Settle(firm, s)
		if err == nil {
			a.report(ctx, s, settled)
			return a.follow(ctx, settled, asked)
		}
		if sleep.For(firm, pause) != nil {
			return a.retryLater(ctx, "settling an effect", err)
		}
	}
}

// follow takes over the effect that the settlement claimed in the stream. Without one it returns
// River's answer for the settled effect.
func (a attempt) follow(ctx context.Context, settled inbox.Settled, asked time.Time) error {
	if settled.Next != nil && a.wakeUp.chain != nil {
		a.wakeUp.chain.next, a.wakeUp.chain.asked = settled.Next, asked
		return nil
	}
	return a.answer(ctx, settled.Standing)
}

// answer returns what River needs to know: nil if the job is done, a snooze until the next wake-up,
// or, on a stop, the cancellation that makes River take the job back.
func (a attempt) answer(ctx context.Context, standing inbox.Standing) error {
	if !standing.Found || !standing.State.Waiting() || standing.JobID != a.wakeUp.jobID {
		return nil
	}
	if ctx.Err() != nil {
		return context.Canceled
	}
	return river.JobSnooze(max(standing.Wait, 0))
}

// withdraw postpones an attempt that was rolled back. The attempt is not counted.
func (a attempt) withdraw(ctx context.Context, doing string, err error) error {
	if !a.committed {
		return a.retryLater(ctx, doing, err)
	}
	a.log.WarnContext(ctx, "wake-up put off", "doing", doing, "error", clean(err.Error()))
	return a.putBack(ctx, reasons.Unavailable, a.faultPause(ctx))
}

// postpone puts an effect off that is not claimed yet.
func (a attempt) postpone(ctx context.Context, standing inbox.Standing, reason reasons.Reason, wait time.Duration) error {
	if a.cfg.Observe != nil {
		a.cfg.Observe(Report{
			Effect: a.wakeUp.effect, Source: a.route.Source, Route: a.route.Name, Target: a.route.Target, State: standing.State, Reason: reason,
		})
	}
	wait = a.route.stored.Retry.Within(standing.Age, wait)
	if err := a.store.Postpone(ctx, a.wakeUp.effect, wait, ""); err != nil {
		return a.retryLater(ctx, "postponing an effect", err)
	}
	return river.JobSnooze(wait)
}
