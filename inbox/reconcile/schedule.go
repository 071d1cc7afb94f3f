package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// Overlap is how far a scheduled run begins before the end of the last complete one, because an event
	// may get into its sender's list some time after it was created.
	Overlap = time.Hour

	// Settling is the age below which a run leaves events out: their delivery is still under way.
	Settling = 5 * time.Minute

	// LookEvery is how often a [Scheduler] should look whether sources are due.
	LookEvery = 30 * time.Second
)

// Scheduled is a source whose sender a worker asks without an operator.
type Scheduled struct {
	Source int32
	Name   string

	// Every is how often, and Window how far back without a complete run before.
	Every, Window time.Duration

	// Reach is how far back a run may ask; 0 does not limit it.
	Reach time.Duration

	// Start makes a run without its period, and stop releases what the run used.
	Start func() (run Run, stop func(), err error)
}

// Scheduler makes the runs of scheduled sources. Several processes may have one: the lock of a source and
// the time of its last run let one of them work.
type Scheduler struct {
	Pool    *pgxpool.Pool
	Sources []Scheduled
	Logger  *slog.Logger
	Now     func() time.Time

	// Fits returns why nothing may be written now; nil means that it always may.
	Fits func() error

	// Paused reports whether an operator has paused a source, whose sender is then not asked. nil means never.
	Paused func(source int32) bool

	// Done is called after each run of this process.
	Done func(source string, report Report, err error)
}

// LookAtAll makes the runs of all sources that are due, until ctx ends.
func (s *Scheduler) LookAtAll(ctx context.Context) {
	for i := range s.Sources {
		if ctx.Err() == nil && (s.Fits == nil || s.Fits() == nil) && (s.Paused == nil || !s.Paused(s.Sources[i].Source)) {
			s.Look(ctx, &s.Sources[i])
		}
	}
}

// Look makes a run of a source if one is due.
func (s *Scheduler) Look(ctx context.Context, source *Scheduled) {
	last, err := Read(ctx, s.Pool, source.Source)
	if err != nil {
		s.Logger.WarnContext(ctx, "reading the last reconciliation failed", slog.String("source", source.Name), slog.Any("error", err))
		return
	}
	now := s.Now()
	if last != nil && now.Before(last.BeganAt.Add(source.Every)) {
		return
	}
	if last != nil && !last.Complete {
		if done := s.start(ctx, source, Run{Resume: true}); !done {
			return
		}
		if last, err = Read(ctx, s.Pool, source.Source); err != nil {
			return
		}
	}
	since, until := source.period(last, now)
	if since.Before(until) {
		s.start(ctx, source, Run{Since: since, Until: until})
	}
}

// period returns the period of a scheduled run.
func (s *Scheduled) period(last *Last, now time.Time) (since, until time.Time) {
	until = now.Add(-Settling)
	since = until.Add(-s.Window)
	if last != nil && last.CoveredUntil != nil {
		since = last.CoveredUntil.Add(-Overlap)
	}
	if oldest := now.Add(-s.Reach); s.Reach > 0 && since.Before(oldest) {
		since = oldest
	}
	return since, until
}

// start makes a run with the period, and reports whether it is complete.
func (s *Scheduler) start(ctx context.Context, source *Scheduled, period Run) bool {
	run, stop, err := source.Start()
	if err == nil {
		defer stop()
		run.Since, run.Until, run.Resume = period.Since, period.Until, period.Resume
		run.Scheduled, run.Actor, run.Reason = true, "schedule", "every "+source.Every.String()
		var report Report
		report, err = run.Do(ctx)
		if errors.Is(err, ErrRunning) || ctx.Err() != nil {
			return false
		}
		if s.Done != nil {
			s.Done(source.Name, report, err)
		}
		if err == nil {
			s.Logger.InfoContext(ctx, "reconciled", slog.String("source", source.Name), slog.Time("since", report.Since), slog.Int("listed", report.Listed),
				slog.Int("missing", report.Missing), slog.Int("admitted", report.Admitted), slog.Int("redelivered", report.Redelivered))
			return report.Complete
		}
	}
	s.Logger.ErrorContext(ctx, "reconciling failed; the next run continues", slog.String("source", source.Name), slog.Any("error", err))
	return false
}
