package prune

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/sleep"
)

// walk goes through one table in the order of an index. It continues where the last
// pass ended, so that not every pass reads the rows that must stay. When the walk
// starts over, it finds the rows that were needed or locked before.
type walk struct {
	// name is the walk's row in prune_walk, and table what it removes from. Stored:
	// never change.
	name, table string

	// first is the position where it begins.
	first string

	// restartAfter is the time after which a completed walk starts over.
	restartAfter time.Duration

	// patient walks do not continue until restartAfter has passed; other walks look in
	// each pass for rows that have become due since.
	patient bool

	// partial walks end before the end of the due rows, so that they do not count as
	// completed.
	partial bool

	// batch reads up to n rows after position and removes those that may be removed.
	batch func(ctx context.Context, tx pgx.Tx, position string, n int) (batchResult, error)

	// fractionDone returns how much of the due rows is before position, from 0 to 1;
	// nil if it is unknown.
	fractionDone func(position string) float64
}

// batchResult is what one batch has read and removed.
type batchResult struct {
	examined int    // rows, including those of other walks
	due      int    // of them past their horizon
	removed  int64  // rows of the table
	last     string // the position of the last one; empty for none
}

// restartEvery is how often most walks start over.
const restartEvery = 24 * time.Hour

// The sizes of a batch. Small, evenly spaced batches disturb deliveries less than large
// ones with long pauses.
const (
	minBatch   = 50
	firstBatch = 500
	maxBatch   = 2000
)

const (
	readWalk = `
SELECT position, began_at, completed_at, clock_timestamp() FROM prune_walk WHERE name = $1`

	writeWalk = `
INSERT INTO prune_walk (name, position, began_at, completed_at) VALUES ($1, $2, $3, $4)
ON CONFLICT ON CONSTRAINT prune_walk_pkey DO UPDATE
SET position = excluded.position, began_at = excluded.began_at, completed_at = excluded.completed_at`
)

// runWalk walks until the end, or until the step has to end.
func (s *pass) runWalk(ctx context.Context, w *walk) error {
	var (
		position  string
		began     time.Time
		completed *time.Time
		now       time.Time
	)
	err := s.conn.QueryRow(ctx, readWalk, w.name).Scan(&position, &began, &completed, &now)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("reading where walk %s is: %w", w.name, err)
	case err != nil, s.run.Anew, len(s.run.Include) > 0: // the named rows may be anywhere before the position
		position, began, completed = w.first, s.retention.now, nil
	case completed != nil && now.Sub(began) >= w.restartAfter:
		position, began, completed = w.first, now, nil
	case completed != nil && w.patient:
		return nil
	}
	ended, err := s.batches(ctx, w, &position)
	if ended && !w.partial {
		completed = &s.retention.now
	} else {
		completed = nil
		s.unfinished[w.table] = append(s.unfinished[w.table], position)
	}
	// Saved even if the pass is stopped, so that the next pass continues from here.
	save, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, saved := s.conn.Exec(save, writeWalk, w.name, position, began, completed); saved != nil && err == nil {
		err = fmt.Errorf("noting where walk %s is: %w", w.name, saved)
	}
	return err
}

// batches reports whether the walk came to its end.
func (s *pass) batches(ctx context.Context, w *walk, position *string) (ended bool, err error) {
	size := firstBatch
	for tries := 0; ; {
		if s.timeIsUp(ctx) {
			return false, errTimeIsUp
		}
		began := s.cfg.Now()
		var got batchResult
		err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) (err error) {
			got, err = w.batch(ctx, tx, *position, size)
			return err
		})
		took := s.cfg.Now().Sub(began)
		switch {
		case err == nil:
			tries = 0
		case ctx.Err() != nil:
			return false, errTimeIsUp
		case errors.Is(err, errArchive):
			return false, nil // the next pass tries again
		case isLockConflict(err) && tries < 5:
			tries++
			size = max(size/2, 1)
			if s.sleep(ctx, 100*time.Millisecond<<tries) != nil {
				return false, errTimeIsUp
			}
			continue
		case isLockConflict(err):
			s.report.Contended = append(s.report.Contended, w.name)
			s.cfg.Logger.WarnContext(ctx, "pruning gave way to locks", slog.String("walk", w.name), slog.String("error", row.ErrorText(err)))
			return false, nil
		default:
			return false, fmt.Errorf("removing from %s: %w", w.table, err)
		}
		s.count(w, got)
		if got.last != "" {
			*position = got.last
		}
		progress := Progress{Step: w.table, Removed: s.report.Removed()}
		if w.fractionDone != nil {
			progress.Done = w.fractionDone(*position)
		}
		s.cfg.Progress(progress)
		if got.examined < size {
			return true, nil
		}
		size = s.resize(size, took)
		if err := s.pauseAfterBatch(ctx, got, took); err != nil {
			return false, errTimeIsUp
		}
	}
}

func (s *pass) count(w *walk, got batchResult) {
	s.report.Batches++
	s.report.Rows[w.table] += got.removed
	s.report.Left += max(int64(got.due)-got.removed, 0)
}

// resize adapts the size to the time that a batch may take.
func (s *pass) resize(size int, took time.Duration) int {
	if took > 0 {
		fit := float64(size) * float64(s.cfg.Batch) / float64(took)
		size = int(min(max(fit, float64(size)/2), float64(size)*2))
	}
	return min(max(size, minBatch), maxBatch)
}

// pauseAfterBatch pauses after a batch that removed rows: long enough to stay within
// the rate, and at least half as long as the batch took, so that prune never occupies
// shared resources alone.
func (s *pass) pauseAfterBatch(ctx context.Context, got batchResult, took time.Duration) error {
	if got.removed == 0 || s.cfg.Rate < 0 {
		return ctx.Err()
	}
	slot := time.Duration(float64(got.removed) / float64(s.cfg.Rate) * float64(time.Second))
	return s.sleep(ctx, max(slot-took, min(took, s.cfg.Batch)/2))
}

// sleep waits, and counts the time as a pause of the pass.
func (s *pass) sleep(ctx context.Context, d time.Duration) error {
	s.pause += d
	return sleep.For(ctx, d)
}

// isLockConflict reports whether another session's locks, or a statement that took too
// long, ended a batch: a smaller one may succeed later.
func isLockConflict(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.SeverityUnlocalized != "ERROR" {
		return false
	}
	switch pg.Code {
	case "55P03", "57014", "40P01", "40001":
		return true
	}
	return false
}

// fractionBetween returns how far an id lies between the first one and a cutoff.
func fractionBetween(first, cutoff inbox.ID) func(position string) float64 {
	return func(position string) float64 {
		at, err := inbox.ParseID(position)
		if err != nil {
			return 0
		}
		if whole := cutoff.Time().Sub(first.Time()); whole > 0 {
			return min(max(at.Time().Sub(first.Time()).Seconds()/whole.Seconds(), 0), 1)
		}
		return 1
	}
}
