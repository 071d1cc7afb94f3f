package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/history"
	"github.com/oncegate/oncegate/internal/session"
)

const (
	// lookEvery is how often the hosts of the database are asked for their timelines: a former primary that still answers
	// says nothing of its successor. As often a commit is made and remembered.
	lookEvery = 3 * time.Second

	// lookAtMost bounds one such look, also while a commit waits for a standby.
	lookAtMost = 5 * time.Second

	// settleEvery is how often a process asks, as long as nothing may be carried out, whether that has changed.
	settleEvery = 250 * time.Millisecond
)

// databaseHistory is what a process knows of its database's history, and whether effects may be carried out.
type databaseHistory struct {
	held  atomic.Pointer[error] // why nothing may be carried out; nil while effects may be
	store *inbox.Effects        // marks effects that may have happened; nil without the role

	since    time.Time // when timeline was first seen
	timeline uint32
	read     time.Time         // when the table was
	told     map[string]bool   // hosts that are not used
	verdicts map[string]string // what was logged

	mu      sync.Mutex
	commits map[uint32]session.Witness // the highest of each timeline
}

// remember notes a commit.
func (h *databaseHistory) remember(w session.Witness) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.commits == nil {
		h.commits = map[uint32]session.Witness{}
	}
	h.commits[w.Timeline] = w
}

// before is the highest commit that the process remembers from before a timeline.
func (h *databaseHistory) before(timeline uint32) (w session.Witness) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, commit := range h.commits {
		if at < timeline && at >= w.Timeline {
			w = commit
		}
	}
	return w
}

// Err returns why nothing may be carried out; nil while effects may be.
func (h *databaseHistory) Err() error {
	if err := h.held.Load(); err != nil {
		return *err
	}
	return nil
}

// openHistory records where the database is, before anything is written, and finds out whether effects may be carried out.
func (a *App) openHistory(ctx context.Context) error {
	if unfenced() {
		return nil
	}
	sessions := a.sessions.History()
	sessions.Decide(0)
	a.hold(history.ErrSettling)
	a.history.told, a.history.verdicts = map[string]bool{}, map[string]string{}
	err := a.whenUnlocked(ctx, "record the place in the database's history", func() error {
		return a.adminPool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			if err := history.Begin(ctx, conn.Conn()); err != nil {
				return err
			}
			sessions.OnBegin(session.TimelineOf(conn.Conn()), history.Begin)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	a.settleHistory(ctx)
	return nil
}

func (a *App) hold(err error) { a.history.held.Store(&err) }

// mayWork returns why this process must not work on effects now.
func (a *App) mayWork() error {
	if err := a.fit.Err(); err != nil {
		return err
	}
	return a.history.Err()
}

// watchHistory keeps asking all hosts of the database for their positions, and decides what a new timeline means.
func (a *App) watchHistory() {
	if a.unasked || unfenced() {
		return
	}
	a.standbys = session.NewStandbys(a.sessions.History(), a.adminPool, a.log)
	a.cleanups.add("standbys", func(context.Context) error { a.standbys.Close(); return nil })
	a.starts = append(a.starts, step{name: "history", run: func(ctx context.Context) error {
		a.settleHistory(ctx)
		a.every(ctx, "history", settleEvery, func(ctx context.Context) {
			if a.history.Err() != nil || a.sessions.History().Timeline() != a.history.timeline || a.cfg.Now().Sub(a.history.read) >= lookEvery {
				a.settleHistory(ctx)
			}
		})
		a.lookAtHosts(ctx) // before anything is sent, so that the standbys are known
		a.every(ctx, "hosts", lookEvery, a.lookAtHosts)
		return nil
	}})
}

// A commit that waits for the standbys, with a place in the log before it.
const witness = `
SELECT ('x' || lpad(substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), 16, '0'))::bit(64)::bigint, pg_current_wal_insert_lsn()::text,
    current_setting('synchronous_standby_names') <> '', pg_logical_emit_message(true, 'oncegate', '')::text`

// lookAtHosts asks where the hosts stand, logs once that one is not used, and remembers a commit.
func (a *App) lookAtHosts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookAtMost)
	defer cancel()
	sessions := a.sessions.History()
	for _, host := range a.standbys.Look(ctx) {
		unused := errors.Is(host.Err, session.ErrBehind) || errors.Is(host.Err, session.ErrOtherSystem)
		if unused && !a.history.told[host.Address] {
			a.log.ErrorContext(ctx, "a server is not used", slog.String("host", host.Address), slog.Any("error", host.Err))
		}
		a.history.told[host.Address] = unused
	}
	var timeline int64
	var lsn string
	var w session.Witness
	if err := a.adminPool.QueryRow(ctx, witness).Scan(&timeline, &lsn, &w.Synchronous, nil); err != nil {
		return // a commit that is not known to have succeeded is no witness
	}
	var err error
	if w.LSN, err = session.ParseLSN(lsn); err != nil {
		return
	}
	w.Timeline, w.At = uint32(timeline), a.cfg.Now()
	sessions.Remember(w)
	a.history.remember(w)
}

// settleHistory reads the row of the database's current history, decides what this process can decide, and marks the effects that may
// have happened. The next call repeats what failed.
func (a *App) settleHistory(ctx context.Context) {
	h := &a.history
	now := a.cfg.Now()
	h.read = now
	row, err := history.Read(ctx, a.adminPool)
	if err != nil {
		return // effects that are carried out now are fenced by their sessions
	}
	if row.Timeline != h.timeline {
		h.timeline, h.since = row.Timeline, now
	}
	w := h.before(row.Timeline)
	e := history.Evidence{Timeline: row.Timeline, SwitchedAt: row.SwitchedAt, Witness: w, Age: now.Sub(w.At), Waited: now.Sub(h.since)}
	switch {
	case row.Verdict == history.Undecided:
		verdict := history.Judge(e)
		if verdict == history.Undecided {
			break
		}
		if err := history.Decide(ctx, a.adminPool, row.ID, verdict); err != nil {
			a.tell(ctx, "deciding what a new timeline means failed", err)
		}
	case row.Verdict == history.Whole && history.Misses(e):
		if err := history.Decide(ctx, a.adminPool, row.ID, history.Restored); err != nil {
			a.tell(ctx, "deciding what a new timeline means failed", err)
		}
	case row.Verdict == history.Restored && !row.Open() && h.store != nil:
		if err := a.markRestored(ctx, row); err != nil {
			a.tell(ctx, "effects that may have happened could not be marked yet", err)
		}
	}
	if row, err = history.Read(ctx, a.adminPool); err != nil {
		return
	}
	if why := row.Err(); why != nil {
		a.sessions.History().Decide(0)
		a.hold(why)
	} else {
		h.held.Store(nil)
		a.sessions.History().Decide(row.Timeline)
	}
	a.tellVerdict(ctx, row)
}

func (a *App) markRestored(ctx context.Context, row *history.Row) error {
	err := a.history.store.MarkRestored(ctx, a.adminPool, row.LastJob, func(ctx context.Context, tx pgx.Tx, n int) error {
		return history.CountMarkedTx(ctx, tx, row.ID, n)
	})
	if err != nil {
		return err
	}
	return history.Finish(ctx, a.adminPool, row.ID)
}

// tell logs what failed, once until something else does.
func (a *App) tell(ctx context.Context, message string, err error) {
	if a.history.verdicts[message] == err.Error() || ctx.Err() != nil {
		return
	}
	a.history.verdicts[message] = err.Error()
	a.log.WarnContext(ctx, "the database's history is not settled", slog.String("step", message), slog.Any("error", err))
}

// tellVerdict logs what the database's history means, once.
func (a *App) tellVerdict(ctx context.Context, row *history.Row) {
	said := fmt.Sprintf("%d/%d/%s/%t", row.System, row.Timeline, row.Verdict, row.Open())
	if a.history.verdicts["verdict"] == said {
		return
	}
	first := a.history.verdicts["verdict"] == ""
	a.history.verdicts["verdict"] = said
	timeline := slog.Int64("timeline", int64(row.Timeline))
	switch {
	case row.Err() != nil:
		a.log.ErrorContext(ctx, "no effect is carried out", slog.Any("error", row.Err()), timeline)
	case first: // a process that starts says nothing of what was decided before
	case row.Verdict == history.Restored:
		a.log.WarnContext(ctx, "the database was restored, or lost its last commits: effects that may have happened are indeterminate with the reason restored; "+
			"effects are carried out again", timeline, slog.Int64("effects", row.Marked))
	default:
		a.log.InfoContext(ctx, "effects are carried out on the new timeline; nothing is missing", timeline)
	}
}

// checkHistory says why this process carries nothing out, if an operator has to do something about it.
func (a *App) checkHistory() error {
	if err := a.history.Err(); a.work != nil && errors.Is(err, history.ErrUndeclared) {
		return err
	}
	return nil
}
