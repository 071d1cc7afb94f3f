package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/sleep"
)

const (
	// lockPoll is the interval at which the lock of another migration is requested.
	lockPoll = 250 * time.Millisecond

	// lockTimeout is how long one attempt waits for a table's lock. All other sessions that need
	// the table queue after the attempt, including deliveries.
	lockTimeout = 2 * time.Second

	// The pause between two attempts begins with lockPause and doubles up to mostPause. During the
	// pause, the queued sessions get the table.
	lockPause = time.Second
	mostPause = 8 * time.Second
)

// LockError is returned for a lock that was not obtained in time.
type LockError struct {
	// What describes the lock, as in "waiting for ...".
	What    string
	Holders []session.Backend
	Waited  time.Duration
}

func (e *LockError) Error() string {
	return fmt.Sprintf("waiting for %s: not within %s; %s: nothing is half done: end it, or wait until it has ended, and run the command again",
		e.What, e.Waited.Round(time.Second), session.HoldersText(e.Holders))
}

// patience limits how long attempts for a lock are repeated.
type patience struct {
	what    string
	tell    func(string)
	within  time.Duration
	now     func() time.Time
	begun   time.Time
	holders []session.Backend
	told    string
}

func (r *runner) patience(what string) *patience {
	return &patience{what: what, tell: r.cfg.Tell, within: r.cfg.LockWait, now: r.cfg.Now, begun: r.cfg.Now()}
}

// again pauses before the next attempt, or returns a [LockError] if the time is up. It reports the
// holders of the lock, once for each change.
func (p *patience) again(ctx context.Context, holders []session.Backend, pause time.Duration) error {
	p.holders = holders
	waited := p.now().Sub(p.begun)
	if waited >= p.within {
		return &LockError{What: p.what, Holders: holders, Waited: waited}
	}
	if text := session.HoldersText(holders); text != p.told {
		p.tell(fmt.Sprintf("waiting for %s: %s; trying for another %s", p.what, text, (p.within - waited).Round(time.Second)))
		p.told = text
	}
	return sleep.For(ctx, min(pause, p.within-waited))
}

// inTx runs do in a transaction and commits it. If a lock is not obtained within [lockTimeout],
// inTx rolls the transaction back and tries again.
func (r *runner) inTx(ctx context.Context, what string, do func(tx pgx.Tx) error) error {
	p := r.patience("a lock of " + what)
	for pause := lockPause; ; pause = min(2*pause, mostPause) {
		var seen []session.Backend
		err := r.watched(ctx, &seen, func() error { return r.try(ctx, do) })
		// A rollback that failed has closed the connection. Another attempt would fail because of that, and hide err.
		if err == nil || !lockNotObtained(err) || r.conn.IsClosed() {
			return err
		}
		if err := p.again(ctx, seen, pause); err != nil {
			return err
		}
	}
}

func (r *runner) try(ctx context.Context, do func(tx pgx.Tx) error) error {
	tx, err := r.conn.Begin(ctx)
	if err != nil {
		return err
	}
	firm, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
	defer cancel()
	defer func() { _ = tx.Rollback(firm) }() // does nothing after a commit
	if _, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", fmt.Sprintf("%dms", min(lockTimeout, r.cfg.LockWait).Milliseconds())); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return tx.Commit(firm)
}

// lockNotObtained reports whether an attempt may be repeated, because the lock timeout ended it or
// PostgreSQL ended it to resolve a deadlock.
func lockNotObtained(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "55P03" || pg.Code == "40P01")
}

// watch checks which sessions block the migration, first after watchAfter and then at the interval
// watchEvery. watchWithin limits how long a migration that has ended waits for its last check.
const (
	watchAfter  = 500 * time.Millisecond
	watchEvery  = 250 * time.Millisecond
	watchWithin = 5 * time.Second
)

// watched runs do. If do takes long, watched uses a second connection to find the sessions that
// block it. seen is complete when watched returns. It may stay empty, because errors of the second
// connection are ignored.
func (r *runner) watched(ctx context.Context, seen *[]session.Backend, do func() error) error {
	watching, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.watch(watching, seen)
	}()
	err := do()
	cancel()
	<-done
	return err
}

// watch does not cancel a statement when ctx ends, but lets it return. A cancel request in that
// moment can end PgBouncer with all its sessions, the migration's own included:
// https://github.com/pgbouncer/pgbouncer/issues/801, seen with 1.18 and reported up to 1.24.
func (r *runner) watch(ctx context.Context, seen *[]session.Backend) {
	timer := time.NewTimer(watchAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	history := new(session.History)
	cfg, err := (&Migrator{cfg: r.cfg}).connConfig(history)
	if err != nil {
		return
	}
	firm, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(watchWithin, cancel) })()
	conn, err := session.ConnectTo(firm, cfg, history)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(firm) }()
	for {
		if holders, err := session.ReadBlockers(firm, conn, r.pid); err == nil && len(holders) > 0 {
			*seen = holders
		}
		timer.Reset(watchEvery)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}
