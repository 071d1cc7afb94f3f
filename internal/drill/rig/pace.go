package rig

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Pace sends at a rate, however long each sending takes.
type Pace struct {
	// PerSecond is the rate, and Length how long it is kept up.
	PerSecond int
	Length    time.Duration

	// Senders is the largest number of sendings at the same time. A sending that is due while all of them are busy
	// starts as soon as one is free.
	Senders int
}

// Run calls send for each number from 0 on, with the time at which it was due since began, until the length has passed
// or ctx ends. It returns when all calls have.
func (p Pace) Run(ctx context.Context, began time.Time, send func(n int, due time.Time)) {
	total := int(p.Length.Seconds() * float64(p.PerSecond))
	dueAt := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second / time.Duration(p.PerSecond)) }
	work := make(chan int, total)
	var senders sync.WaitGroup
	for range p.Senders {
		senders.Go(func() {
			for n := range work {
				send(n, dueAt(n))
			}
		})
	}
	for n := range total {
		if wait := time.Until(dueAt(n)); wait > 0 && !Pause(ctx, wait) || ctx.Err() != nil {
			break
		}
		work <- n
	}
	close(work)
	senders.Wait()
}

// SendEach calls send for each number from 0 to count-1, by several senders at the same time, until one of them fails.
// It returns the first error.
func SendEach(ctx context.Context, count, senders int, send func(ctx context.Context, n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < count && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				if err := send(ctx, n); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
