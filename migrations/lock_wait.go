package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/internal/sleep"
	"github.com/oncegate/oncegate/session"
)

const (
	// lockPoll is how often another migration's lock is asked for.
	lockPoll = 250 * time.Millisecond

	// lockTimeout is how long one try waits for a table's lock. Whoever wants the table
	// meanwhile queues behind it, deliveries among them.
	lockTimeout = 2 * time.Second

	// The pause between two tries begins with lockPause and doubles up to mostPause.
	// Whoever had queued gets their turn in it.
	lockPause = time.Second
	mostPause = 8 * time.Second
)

// LockError is a lock that was not obtained in time.
type LockError struct {
	// What was to be done, as in "waiting for ...".
	What    string
	Holders []session.Backend
	Waited  time.Duration
}

func (e *LockError) Error() string {
	return fmt.Sprintf("waiting for %s: not within %s; %s: nothing is half done: end it, or wait until it has ended, and run the command again",
		e.What, e.Waited.Round(time.Second), session.HoldersText(e.Holders))
}

// patience bounds the tries for a lock.
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

// again pauses before the next try, or returns a [LockError] if the time is up. It
// tells who has the lock, once for each holder.
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

// inTx runs do in a transaction and commits it. A lock that is not obtained within
// [lockTimeout] rolls it back, and it is tried again.
func (r *runner) inTx(ctx context.Context, what string, do func(tx pgx.Tx) error) error {
	p := r.patience("a lock of " + what)
	for pause := lockPause; ; pause = min(2*pause, mostPause) {
		var seen []session.Backend
		err := r.watched(ctx, &seen, func() error { return r.try(ctx, do) })
		if err == nil || !lockNotObtained(err) {
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
	defer func() { _ = tx.Rollback(firm) }() // after a commit it does nothing
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

// lockNotObtained reports whether a try may be repeated: the lock timeout, or a
// deadlock that PostgreSQL ended here.
func lockNotObtained(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "55P03" || pg.Code == "40P01")
}

// What is watched looks after watchAfter and then every watchEvery whom it waits for.
const (
	watchAfter = 500 * time.Millisecond
	watchEvery = 250 * time.Millisecond
)

// watched runs do and, if it takes long, finds out over a second connection whom it
// waits for. seen is complete when watched returns; it may stay empty, since knowing it
// is not needed.
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
	conn, err := session.ConnectTo(ctx, cfg, history)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for {
		if holders, err := session.ReadBlockers(ctx, conn, r.pid); err == nil && len(holders) > 0 {
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
