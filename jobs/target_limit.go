package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/sleep"
	"github.com/oncegate/oncegate/jobs/effect"
)

// ErrTargetBusy: a target's breaker is open, or its rate asks for a longer wait than a question is worth.
var ErrTargetBusy = errors.New("the target's breaker or rate allows no request now")

// maxQuestionWait is how long a question waits for its place.
const maxQuestionWait = 30 * time.Second

// TargetLimit holds what asks a target, without being an attempt at it, to the limits that attempts have: concurrency,
// rate, breaker, and the peace that the target asks for. Like those of the worker, they are counted apart in each
// process and by each TargetLimit.
type TargetLimit struct {
	limiter *limiter
	now     func() time.Time
}

// NewTargetLimit makes the limits of one target. now gives the time.
func NewTargetLimit(t Target, now func() time.Time) *TargetLimit {
	return &TargetLimit{newLimiter(t, &crew{size: DefaultMaxWorkers}, now, rand.Float64), now}
}

// Do waits for a place, asks, and lets the breaker know what came of it. It gives [ErrTargetBusy] without having asked if
// the target is to be left alone.
func (l *TargetLimit) Do(ctx context.Context, ask func(context.Context) effect.Result) error {
	started := l.now()
	for {
		done, wait, reason := l.limiter.enter(true)
		if done != nil {
			done(ask(ctx))
			return nil
		}
		if reason == inbox.ReasonBreaker || l.now().Sub(started)+wait > maxQuestionWait {
			return ErrTargetBusy
		}
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
	}
}
