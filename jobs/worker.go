package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// pgxTx is the transaction type of River's driver.
type pgxTx = pgx.Tx

// effectWorker works the wake-ups of effects.
type effectWorker struct {
	river.WorkerDefaults[effectArgs]
	client *Client
}

// Work implements [river.Worker]. It completes or snoozes the job, or on a stop returns
// context.Canceled. It never fails.
func (w *effectWorker) Work(ctx context.Context, job *river.Job[effectArgs]) error {
	w.client.begun.Store(w.client.now().UnixNano())
	defer w.client.analyze.after()
	return w.client.notifier.after(w.client.snoozeAtDeadline(ctx, w.client.wake(ctx, wakeUp{effect: job.Args.Effect, jobID: job.ID, again: job.Attempt > 1, dueAt: job.ScheduledAt, priority: job.Priority})))
}

// rearmWorker works the wake-ups that request new attempts.
type rearmWorker struct {
	river.WorkerDefaults[rearmArgs]
	client *Client
}

// Work implements [river.Worker].
func (w *rearmWorker) Work(ctx context.Context, job *river.Job[rearmArgs]) error {
	n, err := w.client.store.Rearm(ctx, job.Args.Event)
	if err != nil {
		return w.client.notifier.after(w.client.snoozeAtDeadline(ctx, w.client.retryLater(ctx, "rearming effects", err)))
	}
	if n > 0 {
		w.client.log.InfoContext(ctx, "effects rearmed", "event", job.Args.Event.String(), "effects", n)
	}
	return nil
}

type wakeUp struct {
	effect inbox.ID
	jobID  int64

	// again means that River ran this job before and did not see it end.
	again bool

	// dueAt is the time for which a process scheduled this job, by the clock of that process.
	dueAt time.Time

	// priority is the one of this job in River.
	priority int

	// chain is the stream's further effects that this job carries out, or nil for an effect without
	// a sequence.
	chain *chain
}

func (c *Client) wake(ctx context.Context, w wakeUp) error {
	if ctx.Err() != nil {
		return context.Canceled
	}
	begun := c.now()
	// The request for the claim is not cancelled, because an abandoned claim would stay until its
	// lease ends.
	claim, standing, err := c.store.Claim(context.WithoutCancel(ctx), w.effect, w.jobID)
	c.claims.note(err, c.now())
	if err != nil {
		return c.retryLater(ctx, "claiming an effect", err)
	}
	if claim != nil {
		return c.carryOut(ctx, w, claim, begun)
	}
	if standing.Locked > 0 {
		return river.JobSnooze(c.jittered(standing.Locked))
	}
	if standing.Found && standing.State == inbox.EffectHeld && c.store.Paused(standing.RouteID) {
		return river.JobSnooze(heldPause) // a gap before it is decided later
	}
	if !standing.Found || !standing.State.Waiting() {
		return nil // in a resting state, settled, or claimed by another process
	}
	if standing.Wait > 0 {
		return c.early(ctx, w, standing.Wait)
	}
	route := c.routeOf(standing.RouteID)
	if !route.configured {
		return c.leaveUnknown(ctx, w, standing)
	}
	if c.store.Paused(standing.RouteID) {
		return c.leavePaused(ctx, w, standing)
	}
	if route.stored.InDatabase && !route.stored.Order.Ordered() {
		a := attempt{Client: c, wakeUp: w, route: route, begun: begun}
		if standing.Shadow {
			return a.rehearseUnclaimed(ctx, standing)
		}
		return a.act(ctx, standing)
	}
	return river.JobSnooze(lockPause)
}

// leavePaused puts off an effect whose route or target an operator has paused. It spends no attempt.
func (c *Client) leavePaused(ctx context.Context, w wakeUp, standing inbox.Standing) error {
	route := c.routeOf(standing.RouteID)
	if c.cfg.Observe != nil {
		c.cfg.Observe(Report{
			Effect: w.effect, Source: route.Source, Route: route.Name, Target: route.Target, State: standing.State, Reason: reasons.Paused,
		})
	}
	pause := c.jittered(pausedPause)
	if err := c.store.Postpone(ctx, w.effect, pause, reasons.Paused); err != nil {
		return c.retryLater(ctx, "postponing a paused effect", err)
	}
	return river.JobSnooze(pause)
}

// early ends a wake-up whose effect is due only after wait. A job and its effect are due at the same time. If this
// machine's clock says that the job is due, but the effect is due much later, the database's clock was ahead when the
// effect was postponed, and early makes the effect due. If a process dies, River may run its job before the effect is
// due. In that case again is true, and early keeps the wait.
func (c *Client) early(ctx context.Context, w wakeUp, wait time.Duration) error {
	if wait <= inbox.FarAhead || w.again || w.dueAt.After(c.now()) {
		return river.JobSnooze(wait)
	}
	switch pulled, err := c.store.PullBackOne(ctx, w.effect, w.jobID); {
	case err != nil:
		return c.retryLater(ctx, "claiming an effect", err)
	case pulled:
		wait = 0
	}
	return river.JobSnooze(wait)
}

// snoozeAtDeadline turns the result of a wake-up into what River receives. A wake-up whose context
// has ended returns context.Canceled, but River takes a job back for that only on a stop. At the
// job's own deadline River would count a failure and make the job wait in its backoff, for minutes
// after a few failures, while the effect is due.
func (c *Client) snoozeAtDeadline(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.log.InfoContext(ctx, "wake-up ran out of time and is put off")
		return river.JobSnooze(c.jittered(faultPause))
	}
	return err
}

// retryLater snoozes a wake-up that could not finish because of a database fault, and logs what it
// was doing. On a stop River takes the job back.
func (c *Client) retryLater(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return context.Canceled
	}
	c.log.WarnContext(ctx, "wake-up put off", "doing", doing, "error", clean(err.Error()))
	return river.JobSnooze(c.faultPause(ctx))
}

// faultPause returns the wait after a database fault. It is 0 on a stop, so that any node can
// continue at once.
func (c *Client) faultPause(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	return c.jittered(faultPause)
}

// jittered returns a wait of once to twice as long, so that a backlog does not return at once.
func (c *Client) jittered(wait time.Duration) time.Duration {
	return wait + time.Duration(c.random()*float64(wait))
}
