package inboxtest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// Recorder is a TB that records failures instead of failing, for showing that
// a suite fails what it should. Failed stays false, so that the schemas of such a
// run are not kept.
type Recorder struct {
	testing.TB

	mu       sync.Mutex
	failures []string
}

// Record runs f with a recorder on tb and returns the failures. f runs on a separate
// goroutine, so that a Fatal ends only it.
func Record(tb testing.TB, f func(tb testing.TB)) []string {
	tb.Helper()
	r := &Recorder{TB: tb}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

func (r *Recorder) record(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, text)
}

// Error records a failure.
func (r *Recorder) Error(args ...any) { r.record(fmt.Sprint(args...)) }

// Errorf records a failure.
func (r *Recorder) Errorf(format string, args ...any) { r.record(fmt.Sprintf(format, args...)) }

// Fatal records a failure and ends the goroutine.
func (r *Recorder) Fatal(args ...any) {
	r.record(fmt.Sprint(args...))
	runtime.Goexit()
}

// Fatalf records a failure and ends the goroutine.
func (r *Recorder) Fatalf(format string, args ...any) {
	r.record(fmt.Sprintf(format, args...))
	runtime.Goexit()
}
