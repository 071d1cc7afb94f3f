package jobs

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/halve"
)

// boundRowLocks bounds the wait for one row of a sweep. Many rows may be locked, and each is waited
// for separately.
const boundRowLocks = `SELECT set_config('lock_timeout', '200ms', true)`

// leftToldEvery is how often the log names the session that keeps a row of the sweep locked.
const leftToldEvery = time.Minute

// leftOut remembers the effects that the last sweeps left out.
type leftOut struct {
	ids  map[inbox.ID]bool
	told time.Time
}

// errSkipped means that an effect was left out because its own row or its stream was locked.
var errSkipped = errors.New("the row of the effect, or its stream's, is locked by another session")

// errBudget ends a chunk because the sweep has used up its time.
var errBudget = errors.New("the time of the sweep is up")

// wakeLost wakes the effects that may be lost, one chunk per transaction. A row that another
// transaction has locked never delays the other effects of its chunk: the chunk is halved until
// that effect is alone, and the effect is left out. Effects that an earlier sweep left out come
// last, so that they cannot use up the time of the others.
func (s *Sweeper) wakeLost(ctx context.Context, lost []inbox.ID, began time.Time, report *SweepReport) error {
	slices.SortStableFunc(lost, func(a, b inbox.ID) int { return order(s.left.ids[a]) - order(s.left.ids[b]) })
	for chunk := range slices.Chunk(lost, s.cfg.Chunk) {
		first := true
		var skipped []halve.Left[inbox.ID]
		left, err := halve.Each(chunk, func(ids []inbox.ID) error {
			if !first && s.cfg.Now().Sub(began) >= s.cfg.Budget {
				return errBudget
			}
			first = false
			obtained, err := s.wake(ctx, ids, report)
			for _, id := range ids {
				switch {
				case err != nil:
				case slices.Contains(obtained, id):
					delete(s.left.ids, id)
				default:
					skipped = append(skipped, halve.Left[inbox.ID]{Item: id, Err: errSkipped})
				}
			}
			return err
		})
		s.leave(ctx, append(left, skipped...), report)
		if errors.Is(err, errBudget) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func order(left bool) int {
	if left {
		return 1
	}
	return 0
}

// maxLeft bounds how many left-out effects are remembered.
const maxLeft = 10_000

// leave remembers what a sweep left out. At most once a minute it logs which session has the
// lock.
func (s *Sweeper) leave(ctx context.Context, left []halve.Left[inbox.ID], report *SweepReport) {
	if len(left) == 0 {
		return
	}
	report.Left += len(left)
	if s.left.ids == nil || len(s.left.ids) > maxLeft {
		s.left.ids = map[inbox.ID]bool{}
	}
	// A row that one of our workers locks at this moment is free at the next sweep.
	told := -1
	for i, l := range left {
		if s.left.ids[l.Item] || !errors.Is(l.Err, errSkipped) {
			told = i
		}
		s.left.ids[l.Item] = true
	}
	now := s.cfg.Now()
	if told < 0 || now.Sub(s.left.told) < leftToldEvery {
		return
	}
	asking, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	holder := s.cfg.Store.LockHolder(asking, left[told].Item)
	if errors.Is(left[told].Err, errSkipped) && holder == nil {
		return
	}
	s.left.told = now
	attrs := []slog.Attr{
		slog.Int("left_out", len(left)), slog.String("effect", left[told].Item.String()), slog.String("error", clean(left[told].Err.Error())),
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "overdue effects were left out of the sweep, because another session has locked a row that they need or "+
		"the row was refused: end that session with pg_terminate_backend, or wait until it has ended", append(attrs, holder.Attrs()...)...)
}
