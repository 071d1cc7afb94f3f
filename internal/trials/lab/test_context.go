package lab

import (
	"context"
	"errors"
	"time"
)

// Test is a test that may have a deadline: [testing.T].
type Test interface {
	Context() context.Context
	Cleanup(end func())
	Deadline() (deadline time.Time, ok bool)
	TempDir() string
	Helper()
	Error(args ...any)
	Fatal(args ...any)
}

// TestWorld makes a world that ends with the test, in a directory of the test.
func TestWorld(t Test, cfg WorldConfig) *World {
	t.Helper()
	cfg.Dir = t.TempDir()
	w, err := NewWorld(t.Context(), cfg)
	if w != nil {
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestContext returns a context that ends a minute before the test's own deadline. A campaign that hangs then fails
// where it hangs, and its error quotes the logs. At the deadline itself, Go would end the program without them.
func TestContext(t Test) context.Context {
	deadline, ok := t.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadlineCause(t.Context(), deadline.Add(-time.Minute), errors.New("the time of the test is over (-timeout)"))
	t.Cleanup(cancel)
	return ctx
}
