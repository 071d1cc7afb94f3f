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
	// notifyEvery is the precision with which a short snooze ends.
	notifyEvery = 50 * time.Millisecond

	// snoozeDelay is how long River takes to write a snooze, because it collects snoozes for 50 ms.
	snoozeDelay = 100 * time.Millisecond

	// longSnooze is where River's leader takes over. It schedules jobs that sleep this long and
	// announces them when they are due.
	longSnooze = 5 * time.Second

	// notifyAfter is the number of wake-ups after which River is notified to fetch more. It fetches
	// some hundreds at once and then nothing until it is notified or polls.
	notifyAfter = 64
)

// snoozeNotifier notifies River when a job that was snoozed here for a short time is due, and while
// there is a backlog. Nothing else announces such jobs. River would find them when it polls, but an
// idle system should not poll that often.
type snoozeNotifier struct {
	pool *pgxpool.Pool
	now  func() time.Time

	mu  sync.Mutex
	due map[int64]struct{} // ticks since 1970

	woken   atomic.Int64
	backlog chan struct{}

	stop context.CancelFunc
	done chan struct{}
}

func newSnoozeNotifier(pool *pgxpool.Pool, now func() time.Time) *snoozeNotifier {
	return &snoozeNotifier{pool: pool, now: now, due: map[int64]struct{}{}, backlog: make(chan struct{}, 1)}
}

// after records the end of a wake-up and, if it is a short snooze, its time. It returns err
// unchanged.
func (n *snoozeNotifier) after(err error) error {
	if n.woken.Add(1)%notifyAfter == 0 {
		select {
		case n.backlog <- struct{}{}:
		default:
		}
	}
	if snooze, ok := errors.AsType[*rivertype.JobSnoozeError](err); ok && snooze.Duration < longSnooze {
		at := n.now().Add(max(snooze.Duration, snoozeDelay)).UnixNano()/int64(notifyEvery) + 1
		n.mu.Lock()
		n.due[at] = struct{}{}
		n.due[at+int64(time.Second/notifyEvery)] = struct{}{} // River may be slow to write it
		n.mu.Unlock()
	}
	return err
}

// takeDue reports whether a snooze has ended, and removes it.
func (n *snoozeNotifier) takeDue() bool {
	tick := n.now().UnixNano() / int64(notifyEvery)
	n.mu.Lock()
	defer n.mu.Unlock()
	takeDue := false
	for at := range n.due {
		if at <= tick {
			delete(n.due, at)
			takeDue = true
		}
	}
	return takeDue
}

func (n *snoozeNotifier) start(ctx context.Context) {
	ctx, n.stop = context.WithCancel(ctx)
	n.done = make(chan struct{})
	go n.run(ctx)
}

func (n *snoozeNotifier) end() {
	n.stop()
	<-n.done
}

func (n *snoozeNotifier) run(ctx context.Context) {
	defer close(n.done)
	ticker := time.NewTicker(notifyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.backlog:
		case <-ticker.C:
			if !n.takeDue() {
				continue
			}
		}
		// A notification that fails costs River's poll interval, like one that is lost.
		_, _ = n.pool.Exec(ctx, notifyApart)
	}
}
