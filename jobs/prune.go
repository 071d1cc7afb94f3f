package jobs

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/riverqueue/river"

	"github.com/oncegate/oncegate/inbox/prune"
)

// A pass of prune runs every minute and may use this much of it. The next pass does the rest.
const (
	DefaultPruneEvery  = time.Minute
	DefaultPruneBudget = 45 * time.Second

	// pruneGrace is how long after its budget a pass may still be busy with its last batch.
	pruneGrace = 90 * time.Second
)

// kindPrune is the kind of the job. Stored: never change.
const kindPrune = "prune"

// pruneArgs is one pass of prune.
type pruneArgs struct{}

// Kind implements [river.JobArgs].
func (pruneArgs) Kind() string { return kindPrune }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (pruneArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueName, MaxAttempts: maxAttempts}
}

// pruneWorker makes one bounded pass per job. The pass takes a lock, so several nodes may get a job
// at the same time.
type pruneWorker struct {
	river.WorkerDefaults[pruneArgs]
	client *Client
}

// Timeout implements [river.Worker].
func (w *pruneWorker) Timeout(*river.Job[pruneArgs]) time.Duration {
	return DefaultPruneBudget + pruneGrace
}

// Work implements [river.Worker]. A pass that fails is not retried, because the next one is due
// soon.
func (w *pruneWorker) Work(ctx context.Context, _ *river.Job[pruneArgs]) error {
	c := w.client
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A stop ends the pass between two batches instead of waiting for its budget.
	defer context.AfterFunc(c.stopping, cancel)()
	report, err := c.cfg.Prune.Run(ctx, prune.Run{})
	if c.cfg.Pruned != nil && (err == nil || report.Obtained) {
		c.cfg.Pruned(ctx, report)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.log.ErrorContext(ctx, "pruning failed", slog.String("error", clean(err.Error())))
	case report.Removed() > 0 || len(report.Partitions) > 0:
		c.log.InfoContext(ctx, "pruned", slog.Int64("rows", report.Removed()), slog.Any("partitions", report.Partitions),
			slog.Int64("kept", report.Kept), slog.Bool("complete", report.Complete), slog.Int64("elapsed_ms", report.Elapsed.Milliseconds()))
	}
	return nil
}

// periodic returns the jobs that River's leader inserts periodically.
func (c *Client) periodic() []*river.PeriodicJob {
	if c.cfg.Prune == nil || c.cfg.PruneEvery < 0 {
		return nil
	}
	every := river.PeriodicInterval(cmp.Or(c.cfg.PruneEvery, DefaultPruneEvery))
	return []*river.PeriodicJob{
		river.NewPeriodicJob(every, func() (river.JobArgs, *river.InsertOpts) { return pruneArgs{}, nil }, &river.PeriodicJobOpts{RunOnStart: true}),
	}
}
