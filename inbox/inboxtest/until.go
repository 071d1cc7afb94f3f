package inboxtest

import (
	"testing"
	"time"
)

// Until waits for a condition that another goroutine or process brings about,
// and fails the test if it does not within 20 s.
func Until(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	UntilWithin(tb, 20*time.Second, what, condition)
}

// UntilWithin is [Until] for what takes long on a busy machine.
func UntilWithin(tb testing.TB, limit time.Duration, what string, condition func() bool) {
	tb.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatalf("waited %s in vain for: %s", limit, what)
		}
	}
}
