package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox"
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
	w.client.begun.Store(w.client.now().UnixNano())
	defer w.client.analyze.after()
	return w.client.notifier.after(w.client.snoozeAtDeadline(ctx, w.client.wake(ctx, wakeUp{effect: job.Args.Effect, jobID: job.ID, again: job.Attempt > 1})))
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
	if !standing.Found || !standing.State.Waiting() {
		return nil // at rest, settled, or somebody has it
	}
	if standing.Wait > 0 {
		return river.JobSnooze(standing.Wait)
	}
	route := c.routeOf(standing.RouteID)
	if !route.configured {
		return c.leaveUnknown(ctx, w, standing)
	}
	if route.stored.InDatabase && !route.stored.Order.Ordered() {
		return attempt{Client: c, wakeUp: w, route: route, begun: begun}.act(ctx, standing)
	}
	return river.JobSnooze(lockPause)
}

// snoozeAtDeadline turns what a wake-up ended with into what River hears of it. Ours end with
// context.Canceled when their context has ended; but only on a stop does River take a
// job back for that. At a job's own deadline it would count a failure, and let the
// job wait in its backoff, for minutes after a few, while the effect is due.
func (c *Client) snoozeAtDeadline(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.log.InfoContext(ctx, "wake-up ran out of time and is put off")
		return river.JobSnooze(c.jittered(faultPause))
	}
	return err
}

// retryLater snoozes a wake-up that a fault of the database kept from doing, and says in
// the log what it was doing. On a stop River takes the job back.
func (c *Client) retryLater(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return context.Canceled
	}
	c.log.WarnContext(ctx, "wake-up put off", "doing", doing, "error", clean(err.Error()))
	return river.JobSnooze(c.faultPause(ctx))
}

// faultPause gives the wait after a fault of the database. What a stop cuts short is
// due at once, on whichever node is next.
func (c *Client) faultPause(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	return c.jittered(faultPause)
}

// jittered gives a wait of once to twice as long, so that a backlog does not come back at
// once.
func (c *Client) jittered(wait time.Duration) time.Duration {
	return wait + time.Duration(c.random()*float64(wait))
}
