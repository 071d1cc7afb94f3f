package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/internal/sleep"
)

var errStopped = errors.New("stopped")

func TestFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		d     time.Duration
		ended time.Duration // when ctx ends; negative means never
		slept time.Duration
		want  error
	}{
		"ToTheEnd":             {d: time.Hour, ended: -1, slept: time.Hour},
		"CutShort":             {d: time.Hour, ended: time.Minute, slept: time.Minute, want: errStopped},
		"AfterTheEnd":          {d: time.Hour, ended: 0, want: errStopped},
		"Zero":                 {d: 0, ended: -1},
		"ZeroAfterTheEnd":      {d: 0, ended: 0, want: errStopped},
		"Negative":             {d: -time.Hour, ended: -1},
		"NegativeAfterTheEnd":  {d: -time.Hour, ended: 0, want: errStopped},
		"TheContextEndsBehind": {d: time.Minute, ended: time.Hour, slept: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				switch {
				case c.ended == 0:
					cancel(errStopped)
				case c.ended > 0:
					defer time.AfterFunc(c.ended, func() { cancel(errStopped) }).Stop()
				}
				began := time.Now()
				err := sleep.For(ctx, c.d)
				if slept := time.Since(began); slept != c.slept || !errors.Is(err, c.want) {
					t.Errorf("slept %v and returned %v; want %v and %v", slept, err, c.slept, c.want)
				}
			})
		})
	}
}

// The cause of a deadline is the deadline error itself.
func TestForUntilADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := sleep.For(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want %v", err, context.DeadlineExceeded)
		}
	})
}
