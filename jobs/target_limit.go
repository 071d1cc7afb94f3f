package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/sleep"
	"github.com/oncegate/oncegate/jobs/effect"
)

// ErrTargetBusy means that a target's breaker is open, or that its rate requires a longer wait than
// maxQuestionWait.
var ErrTargetBusy = errors.New("the target's breaker or rate allows no request now")

// maxQuestionWait is how long a question waits for a slot.
const maxQuestionWait = 30 * time.Second

// TargetLimit applies the limits of attempts to requests that ask a target something without being an attempt:
// concurrency, rate, breaker, and the pause that a Retry-After asks for. Like the worker's limits, they are counted
// separately in each process, and also by each TargetLimit.
type TargetLimit struct {
	limiter *limiter
	now     func() time.Time
}

// NewTargetLimit makes the limits of one target. now returns the current time.
func NewTargetLimit(t Target, now func() time.Time) *TargetLimit {
	return &TargetLimit{newLimiter(t, &crew{size: DefaultMaxWorkers}, now, rand.Float64), now}
}

// Do waits for a slot, asks, and passes the result to the breaker. If the target allows no request soon enough, it
// returns [ErrTargetBusy] without asking.
func (l *TargetLimit) Do(ctx context.Context, ask func(context.Context) effect.Result) error {
	started := l.now()
	for {
		done, wait, reason := l.limiter.enter(true)
		if done != nil {
			done(ask(ctx))
			return nil
		}
		if reason == reasons.Breaker || l.now().Sub(started)+wait > maxQuestionWait {
			return ErrTargetBusy
		}
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
	}
}
