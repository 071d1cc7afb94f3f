package jobs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"
)

// leaveFor is how long a wake-up that this process must not work is put off. It is long enough that
// the process is not busy with snoozing, and short enough that effects do not wait noticeably while
// newer processes start.
const leaveFor = time.Second

// tablesChanged reports whether one of our own statements failed because a migration changed the
// tables under it or had them locked: an undefined table, column or function, an outdated plan, or
// a lock timeout.
func tablesChanged(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "42") || pg.Code == "0A000" || pg.Code == "55P03")
}

// leaveToNewer snoozes every wake-up while this process must not work on the tables, so that a
// newer process gets it. Nothing was claimed, so no attempt is counted and a replay keeps its
// position. A pass of prune that no process took before the next one was due is dropped.
func (c *Client) leaveToNewer(ctx context.Context, kind string, created time.Time) (left bool, err error) {
	misfit := c.cfg.Fits()
	if misfit == nil {
		return false, nil
	}
	if kind == kindPrune && c.now().Sub(created) >= cmp.Or(c.cfg.PruneEvery, DefaultPruneEvery) {
		c.log.WarnContext(ctx, "a pass of prune was left out: no newer process took it", slog.String("error", clean(misfit.Error())))
		return true, nil
	}
	return true, river.JobSnooze(c.jittered(leaveFor))
}
