package background_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/internal/background"
)

func TestStopWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		returned := false
		stop := background.Run(t.Context(), func(ctx context.Context) {
			<-ctx.Done()
			<-time.After(time.Minute) // the work that it finishes
			returned = true
		})
		began := time.Now()
		if err := stop(t.Context()); err != nil || !returned || time.Since(began) != time.Minute {
			t.Errorf("stop: %v after %v, returned %t; want nil after %v", err, time.Since(began), returned, time.Minute)
		}
		if err := stop(t.Context()); err != nil {
			t.Errorf("a second stop: %v", err)
		}
	})
}

// A stop that takes too long returns an error, and a later stop waits for the end.
func TestStopGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var returned atomic.Bool
		stop := background.Run(t.Context(), func(ctx context.Context) {
			<-ctx.Done()
			<-time.After(time.Hour)
			returned.Store(true)
		})
		late := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, late)
		defer cancel()
		if err := stop(ctx); !errors.Is(err, late) || returned.Load() {
			t.Errorf("stop: %v, returned %t; want %v", err, returned.Load(), late)
		}
		if err := stop(t.Context()); err != nil || !returned.Load() {
			t.Errorf("a second stop: %v, returned %t", err, returned.Load())
		}
	})
}

func TestStopOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stop := background.Run(t.Context(), func(context.Context) {})
		synctest.Wait()
		if err := stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

// The context of a start ends with the start.
func TestRunOutlivesItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
		var got any
		running := true
		stop := background.Run(ctx, func(ctx context.Context) {
			got = ctx.Value(key{})
			<-ctx.Done()
			running = false
		})
		cancel()
		synctest.Wait()
		if !running || got != "kept" {
			t.Errorf("running %t with the value %v; want true and kept", running, got)
		}
		if err := stop(t.Context()); err != nil || running {
			t.Errorf("stop: %v, running %t", err, running)
		}
	})
}
