package inboxtest

import (
	"testing"
	"time"
)

// Until waits for a condition that another goroutine or process brings about,
// and fails the test if it does not within 20 s.
func Until(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatalf("waited 20 s in vain for: %s", what)
		}
	}
}
