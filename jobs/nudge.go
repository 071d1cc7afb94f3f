package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/rivertype"
)

const (
	// nudgeEvery is how exactly a short snooze ends.
	nudgeEvery = 50 * time.Millisecond

	// snoozeWritten is how long River takes to write a snooze down: it collects them
	// for 50 ms.
	snoozeWritten = 100 * time.Millisecond

	// longSnooze is where River's leader takes over: what sleeps for as long is
	// scheduled, and is announced when it is due.
	longSnooze = 5 * time.Second
)

// nudger makes River look for jobs when one that was snoozed here for a short
// time is due. Nobody announces those: River would find them when it polls, and
// an idle system is not to poll that often.
type nudger struct {
	pool *pgxpool.Pool
	now  func() time.Time

	mu  sync.Mutex
	due map[int64]struct{} // ticks since 1970

	stop context.CancelFunc
	done chan struct{}
}

func newNudger(pool *pgxpool.Pool, now func() time.Time) *nudger {
	return &nudger{pool: pool, now: now, due: map[int64]struct{}{}}
}

// after notes a short snooze and passes on what River is to hear.
func (n *nudger) after(err error) error {
	if snooze, ok := errors.AsType[*rivertype.JobSnoozeError](err); ok && snooze.Duration < longSnooze {
		at := n.now().Add(max(snooze.Duration, snoozeWritten)).UnixNano()/int64(nudgeEvery) + 1
		n.mu.Lock()
		n.due[at] = struct{}{}
		n.due[at+int64(time.Second/nudgeEvery)] = struct{}{} // River may be slow in writing it
		n.mu.Unlock()
	}
	return err
}

// ripe reports whether a snooze has ended, and forgets it.
func (n *nudger) ripe() bool {
	tick := n.now().UnixNano() / int64(nudgeEvery)
	n.mu.Lock()
	defer n.mu.Unlock()
	ripe := false
	for at := range n.due {
		if at <= tick {
			delete(n.due, at)
			ripe = true
		}
	}
	return ripe
}

func (n *nudger) start(ctx context.Context) {
	ctx, n.stop = context.WithCancel(ctx)
	n.done = make(chan struct{})
	go n.run(ctx)
}

func (n *nudger) end() {
	n.stop()
	<-n.done
}

func (n *nudger) run(ctx context.Context) {
	defer close(n.done)
	ticker := time.NewTicker(nudgeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n.ripe() {
			// A nudge that fails costs River's poll interval, as one that is lost does.
			_, _ = n.pool.Exec(ctx, notifyWorkers)
		}
	}
}
