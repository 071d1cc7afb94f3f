package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/sleep"
)

const (
	// replayWorkers is how many replays a process works on at once. The steps of one
	// replay never overlap, whichever process makes them.
	replayWorkers = 2

	// replaySlice is how long one job works before another replay has its turn. It is well
	// below River's job timeout. It is long because nothing is replayed for about a tenth of
	// a second between two jobs.
	replaySlice = 15 * time.Second

	// replayPoll is how often an idle process looks for replays.
	replayPoll = time.Second

	// stepTimeout bounds one step. PostgreSQL rolls back what the step has not committed by then.
	stepTimeout = 30 * time.Second
)

// replayWorker works the jobs of running replays.
type replayWorker struct {
	river.WorkerDefaults[replayArgs]
	client *Client
}

// Work implements [river.Worker]. It makes steps until every item is taken or the replay is cancelled. It snoozes the
// job when its slice is over or when the next step is more than a second away.
func (w *replayWorker) Work(ctx context.Context, job *river.Job[replayArgs]) error {
	return w.client.snoozeAtDeadline(ctx, w.work(ctx, job))
}

func (w *replayWorker) work(ctx context.Context, job *river.Job[replayArgs]) error {
	c := w.client
	held, err := c.cfg.Replays.Acquire(ctx, job.Args.Replay)
	if err != nil {
		return c.retryLater(ctx, "holding a replay", err)
	}
	defer held.Release()
	for begun := c.now(); ctx.Err() == nil; {
		if left, err := c.leaveToNewer(ctx, job.Kind, job.CreatedAt); left {
			c.log.InfoContext(ctx, "replay is left to a newer process", "replay", job.Args.Replay.String())
			return err
		}
		rest, atMost, err := w.rest(ctx)
		if err != nil {
			return c.retryLater(ctx, "a rest of a replay", err)
		}
		var step replay.Step
		if rest > 0 {
			step = replay.Step{State: replay.Running, JobID: job.ID, Wait: rest}
		} else {
			firm, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
			step, err = held.Step(firm, atMost)
			cancel()
		}
		c.throttle.took(step.Items)
		switch {
		case errors.Is(err, inbox.ErrNotFound):
			return nil
		case err != nil:
			return c.retryLater(ctx, "a step of a replay", err)
		case step.State != replay.Running:
			c.log.InfoContext(ctx, "replay ended", "replay", job.Args.Replay.String(), "state", string(step.State))
			return nil
		case step.JobID != job.ID:
			return nil // the sweeper took this job for lost and inserted another one
		case step.Wait > time.Second, c.now().Sub(begun) >= replaySlice:
			return river.JobSnooze(step.Wait)
		}
		_ = sleep.For(ctx, step.Wait) // the loop ends with ctx
	}
	return context.Canceled
}

// The worker makes a step only while fewer than mostAhead wake-ups of replays are waiting,
// because it can no longer slow those down for live deliveries. Otherwise it waits for aheadWait.
const (
	mostAhead = 1000
	aheadWait = 20 * time.Millisecond
)

const readAhead = `
SELECT count(*) >= $1
FROM (SELECT FROM river_job WHERE state = 'available' AND queue = '` + queueName + `' AND priority = $2 LIMIT $1) AS waiting`

// rest returns how long to wait before a step or, if that is 0, how many items a second the
// step may take; 0 is any number.
func (w *replayWorker) rest(ctx context.Context) (rest time.Duration, atMost float32, err error) {
	if rest, atMost = w.client.throttle.next(); rest > 0 {
		return rest, 0, nil
	}
	var ahead bool
	if err := w.client.cfg.Pool.QueryRow(ctx, readAhead, mostAhead, lastPriority).Scan(&ahead); err != nil {
		return 0, 0, fmt.Errorf("counting wake-ups: %w", err)
	}
	if ahead {
		rest = aheadWait
	}
	return rest, atMost, nil
}

// heldWithin is the least age at which a running job counts as lost if no process has locked
// its replay. A younger job may not have acquired the replay yet, or River may not have
// recorded the job's end.
const heldWithin = 2 * time.Second

// If no process has locked the replay of a running job, the job's process died.
const lostReplays = `
SELECT p.id
FROM unnest($1::uuid[], $3::bigint[], $4::boolean[]) AS p (id, job_id, held)
LEFT JOIN LATERAL (
    SELECT ` + liveJob + ` AND (p.held OR j.state <> 'running' OR j.attempted_at > now() - $5::bigint * interval '1 microsecond') AS live
    FROM river_job j, (SELECT 0::bigint AS lease) r
    WHERE j.id = p.job_id
    LIMIT 1) j ON true
WHERE NOT coalesce(j.live, false)
ORDER BY p.id`

// SweepReplays inserts a new job for each running replay whose job is not live, expires plans
// that were not run in time, and stores which replays are done. It returns how many replays it woke.
func (s *Sweeper) SweepReplays(ctx context.Context) (int, error) {
	if s.cfg.Replays == nil {
		return 0, nil
	}
	if err := s.cfg.Replays.Expire(ctx); err != nil {
		return 0, err
	}
	if err := s.cfg.Replays.Settle(ctx); err != nil {
		return 0, err
	}
	running, err := s.cfg.Replays.Running(ctx, s.cfg.Chunk)
	if s.replaying = len(running) > 0; err != nil || !s.replaying {
		return 0, err
	}
	ids, jobIDs, held := make([]inbox.ID, len(running)), make([]int64, len(running)), make([]bool, len(running))
	for i, r := range running {
		ids[i], jobIDs[i], held[i] = r.ID, r.JobID, r.Held
	}
	// River starts the job of a live replay again after a slice and a step. A host that died
	// may hold its replay for longer, so a job that began too long ago is lost even if its
	// replay is held.
	rows, err := s.cfg.Pool.Query(ctx, lostReplays, ids, 3*s.cfg.MinRunning.Microseconds(), jobIDs, held, heldWithin.Microseconds())
	if err != nil {
		return 0, fmt.Errorf("reading running replays: %w", err)
	}
	lost, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
	if err != nil {
		return 0, fmt.Errorf("reading running replays: %w", err)
	}
	for i, id := range lost {
		if err := s.cfg.Replays.Wake(ctx, id); err != nil {
			return i, err
		}
	}
	return len(lost), nil
}
