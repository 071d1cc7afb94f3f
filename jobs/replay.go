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
	// replayWorkers is how many replays a process works on at once. One replay's
	// steps follow one another whoever makes them.
	replayWorkers = 2

	// replaySlice is how long one job works before another replay has its turn: well
	// within the time that River gives a job, and seldom, since for a tenth of a second
	// between two jobs nothing is replayed.
	replaySlice = 15 * time.Second

	// replayPoll is how often an idle process looks for replays.
	replayPoll = time.Second

	// stepTimeout bounds one step. What it had not committed was not done.
	stepTimeout = 30 * time.Second
)

// replayWorker works the jobs of running replays.
type replayWorker struct {
	river.WorkerDefaults[replayArgs]
	client *Client
}

// Work implements [river.Worker]. It makes steps until the replay is at its end
// or another one may want to go on; then, or where the rate says to wait, it
// snoozes.
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
			return nil // taken for lost: its successor goes on
		case step.Wait > time.Second, c.now().Sub(begun) >= replaySlice:
			return river.JobSnooze(step.Wait)
		}
		_ = sleep.For(ctx, step.Wait) // the loop ends with ctx
	}
	return context.Canceled
}

// A step is made while fewer than mostAhead wake-ups of replays wait for a worker, so that
// there is little that cannot give way any more; aheadWait is how long it waits else.
const (
	mostAhead = 1000
	aheadWait = 20 * time.Millisecond
)

const readAhead = `
SELECT count(*) >= $1
FROM (SELECT FROM river_job WHERE state = 'available' AND queue = '` + queueName + `' AND priority = $2 LIMIT $1) AS waiting`

// rest says how long to wait before a step or, if that is 0, how many items a second it
// may take.
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

// heldWithin is how old the job of a replay that nobody holds has to be at least: it has
// to get as far as holding it, and its end to be written down.
const heldWithin = 2 * time.Second

// A job that runs while nobody holds its replay runs nowhere: its process died.
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

// SweepReplays gives running replays whose job is not live a new one, and ends
// plans that were not run in time. It returns how many were woken.
func (s *Sweeper) SweepReplays(ctx context.Context) (int, error) {
	if s.cfg.Replays == nil {
		return 0, nil
	}
	if err := s.cfg.Replays.Expire(ctx); err != nil {
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
	// A job that runs has a slice and a step before it says so anew; a host that died
	// may hold a replay for longer.
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
