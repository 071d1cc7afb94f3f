package row

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Group commits the requests of concurrent callers together: all that wait when a flush
// begins are part of it. A single caller does not wait for others, unless a group of
// several has just begun ([Group.Apart]).
type Group[In, Out any] struct {
	// Run does a group in one transaction; it answers in the order of in.
	Run func(ctx context.Context, in []In) ([]Out, error)

	// Flushers is how many groups may run at once; Size bounds a group.
	Flushers, Size int

	// Apart is the least time from the begin of a group of several to the begin of the
	// next one of its flusher, because under a steady load most of a small group's cost
	// is per group. A group that is full before that begins at once. 0 means no pause.
	Apart time.Duration

	// Timeout bounds one flush. A caller's cancellation does not reach the flush, so
	// that a caller that has gone cannot cancel the work of others.
	Timeout time.Duration

	mu      sync.Mutex
	running int
	waiting []*waiter[In, Out]
}

type waiter[In, Out any] struct {
	in   In
	out  Out
	err  error
	done chan struct{}
}

// Do returns when in was committed, or failed, or ctx ended; in the last case
// the commit may still happen.
func (g *Group[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	w := &waiter[In, Out]{in: in, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	if g.running < g.Flushers {
		g.running++
		go g.flush(context.WithoutCancel(ctx))
	}
	g.mu.Unlock()
	select {
	case <-w.done:
		return w.out, w.err
	case <-ctx.Done():
		var none Out
		return none, context.Cause(ctx)
	}
}

// Resize changes how large the next groups may be.
func (g *Group[In, Out]) Resize(change func(size int) int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Size = change(g.Size)
}

func (g *Group[In, Out]) flush(ctx context.Context) {
	for {
		g.mu.Lock()
		n := min(len(g.waiting), g.Size)
		if n == 0 {
			g.running--
			g.mu.Unlock()
			return
		}
		group := make([]*waiter[In, Out], n)
		copy(group, g.waiting)
		g.waiting = append(g.waiting[:0], g.waiting[n:]...)
		g.mu.Unlock()
		var next <-chan time.Time
		if g.Apart > 0 && n > 1 {
			next = time.After(g.Apart)
		}
		g.answer(ctx, group)
		if next != nil && !g.isFull() {
			<-next
		}
	}
}

func (g *Group[In, Out]) isFull() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting) >= g.Size
}

// answer runs the group and, if the database refused it because of one request, splits
// it down to single callers, so that one cannot fail the others.
func (g *Group[In, Out]) answer(ctx context.Context, group []*waiter[In, Out]) {
	in := make([]In, len(group))
	for i, w := range group {
		in[i] = w.in
	}
	timed, cancel := context.WithTimeout(ctx, g.Timeout)
	out, err := g.Run(timed, in)
	cancel()
	if err != nil && len(group) > 1 && divisible(err) {
		half := len(group) / 2
		g.answer(ctx, group[:half])
		g.answer(ctx, group[half:])
		return
	}
	for i, w := range group {
		if w.err = err; err == nil {
			w.out = out[i]
		}
		close(w.done)
	}
}

// divisible reports whether a part of the group may succeed although the whole failed:
// the server answered with an ERROR.
func divisible(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Severity == "ERROR"
}
