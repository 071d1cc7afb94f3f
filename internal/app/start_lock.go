package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/sleep"
)

const (
	// startPatience is how long a step of a start waits for locks of tables, by default. Processes that start together register one after
	// the other.
	startPatience = time.Minute

	// startPause is the pause between two tries. Each try also waits as long as the session's lock_timeout.
	startPause = 200 * time.Millisecond
)

// LockError means that a start gave up because other sessions kept tables locked that it must write to.
type LockError struct {
	// What is the step that waited, as in "waiting to ...".
	What    string
	Holders []session.Backend
	Waited  time.Duration
	cause   error
}

func (e *LockError) Error() string {
	return fmt.Sprintf("waiting to %s: not within %s; %s: end that session or wait until it has ended, then try again (%v)",
		e.What, e.Waited.Round(time.Second), session.HoldersText(e.Holders), e.cause)
}

func (e *LockError) Unwrap() error { return e.cause }

// tableLocks selects the processes whose locks of Oncegate's tables keep a registration waiting. A transaction that
// writes takes ROW EXCLUSIVE.
const tableLocks = `
SELECT l.pid
FROM pg_locks l
JOIN pg_class c ON c.oid = l.relation AND c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
WHERE l.locktype = 'relation' AND l.granted AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND (l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
        OR l.mode = 'RowExclusiveLock' AND c.relname IN ('source', 'route'))`

// whenUnlocked does a step of the start. If the step does not obtain a lock, whenUnlocked repeats it, for a minute in
// all, and logs who has the lock. A step that fails must change nothing.
func (a *App) whenUnlocked(ctx context.Context, what string, do func() error) error {
	began, told := a.cfg.Now(), ""
	for {
		err := do()
		timedOut := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil // the step's own deadline, before the lock's
		if !lockNotObtained(err) && !timedOut {
			return err
		}
		holders, readErr := session.ReadBackends(ctx, a.adminPool, tableLocks)
		if readErr != nil {
			holders = nil
		}
		waited, limit := a.cfg.Now().Sub(began), a.cfg.Patience
		if waited >= limit {
			return &LockError{What: what, Holders: holders, Waited: waited, cause: err}
		}
		if text := session.HoldersText(holders); text != told {
			a.log.WarnContext(ctx, "waiting for a lock at the start", slog.String("to", what), slog.String("holder", text), slog.Float64("for_another_seconds", (limit-waited).Seconds()))
			told = text
		}
		if err := sleep.For(ctx, startPause); err != nil {
			return err
		}
	}
}

// lockNotObtained reports whether a step may be repeated: after a lock timeout, or after a deadlock or conflict that
// PostgreSQL resolved by ending this step.
func lockNotObtained(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "55P03" || pg.Code == "40P01" || pg.Code == "40001")
}
