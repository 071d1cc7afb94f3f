package rig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/sleep"
)

// Pause waits for a time. It returns false if ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	return sleep.For(ctx, d) == nil
}

// ErrTimeout is wrapped by [Until] and [Poll] when the condition did not hold in time.
var ErrTimeout = errors.New("it did not happen in time")

// Until calls holds every 10 ms until it returns true. what describes the condition, such as "the effects to come to
// rest". It fails with ErrTimeout when the limit has passed, or when ctx ends.
func Until(ctx context.Context, limit time.Duration, what string, holds func() (bool, error)) error {
	return Poll(ctx, 10*time.Millisecond, limit, what, holds)
}

// Poll is [Until] for a question that costs something: it asks less often.
func Poll(ctx context.Context, every, limit time.Duration, what string, holds func() (bool, error)) error {
	timed, cancel := context.WithTimeoutCause(ctx, limit, ErrTimeout)
	defer cancel()
	for {
		if yes, err := holds(); err != nil || yes {
			return err
		}
		if !Pause(timed, every) {
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(timed))
		}
	}
}
