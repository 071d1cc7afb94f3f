// Package locks repeats work on rows that other transactions have locked. It knows neither the rows nor the error that
// its caller returns when the wait is over.
package locks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/sleep"
)

// What another transaction has locked is tried again tries times, pause apart.
const (
	tries = 20
	pause = 100 * time.Millisecond
)

// ForEachChunk calls do for all items, size at a time. At the end it tries the missed items, which other transactions
// had locked, a few times again. Then it returns an error that wraps locked.
func ForEachChunk[T any, ID interface {
	comparable
	fmt.Stringer
}](ctx context.Context, locked error, all []T, size int, effect func(T) ID, do func(chunk []T) (missed []ID, err error),
) error {
	for try := 0; len(all) > 0; try++ {
		if try > tries {
			return fmt.Errorf("%w: %d effects, the first is %s; end the session that has it, or make the call again", locked, len(all), effect(all[0]))
		}
		if try > 0 && sleep.For(ctx, pause) != nil {
			return ctx.Err()
		}
		var later []T
		for chunk := range slices.Chunk(all, size) {
			missed, err := do(chunk)
			if err != nil {
				return err
			}
			for _, item := range chunk {
				if slices.Contains(missed, effect(item)) {
					later = append(later, item)
				}
			}
		}
		all = later
	}
	return nil
}

// Retry runs a transaction again if it finds rows that another transaction has locked, a few times. Then it returns
// locked.
func Retry(ctx context.Context, locked error, transaction func() error) error {
	for try := 0; ; try++ {
		err := transaction()
		switch {
		case err == nil || !row.IsLocked(err):
			return err
		case try >= tries:
			return locked
		}
		if sleep.For(ctx, pause) != nil {
			return ctx.Err()
		}
	}
}
