package jobs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

	// nudgeAfter is after how many wake-ups River is made to look for more: it fetches
	// some hundreds at once, and then nothing until it is told of more, or polls.
	nudgeAfter = 64
)

// nudger makes River look for jobs when one that was snoozed here for a short
// time is due, and while there is a backlog. Nobody announces those: River would
// find them when it polls, and an idle system is not to poll that often.
type nudger struct {
	pool *pgxpool.Pool
	now  func() time.Time

	mu  sync.Mutex
	due map[int64]struct{} // ticks since 1970

	woken atomic.Int64
	busy  chan struct{}

	stop context.CancelFunc
	done chan struct{}
}

func newNudger(pool *pgxpool.Pool, now func() time.Time) *nudger {
	return &nudger{pool: pool, now: now, due: map[int64]struct{}{}, busy: make(chan struct{}, 1)}
}

// after notes the end of a wake-up, and a short snooze, and passes on what River is
// to hear.
func (n *nudger) after(err error) error {
	if n.woken.Add(1)%nudgeAfter == 0 {
		select {
		case n.busy <- struct{}{}:
		default:
		}
	}
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
		case <-n.busy:
		case <-ticker.C:
			if !n.ripe() {
				continue
			}
		}
		// A nudge that fails costs River's poll interval, as one that is lost does.
		_, _ = n.pool.Exec(ctx, notifyApart)
	}
}
