package inboxtest

import (
	"testing"
	"time"
)

// Until waits for a condition that another goroutine or process brings about,
// and fails the test if it does not within a minute, which a busy machine may need.
func Until(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	UntilWithin(tb, time.Minute, what, condition)
}

// Most conditions ask the database, and what they wait for needs the same processors: so it is
// asked every 2 ms at first, and more rarely the longer it takes.
const (
	leastPause = 2 * time.Millisecond
	mostPause  = 20 * time.Millisecond
)

// UntilWithin is [Until] for what takes long on a busy machine.
func UntilWithin(tb testing.TB, limit time.Duration, what string, condition func() bool) {
	tb.Helper()
	began := time.Now()
	for !condition() {
		took := time.Since(began)
		if took > limit {
			tb.Fatalf("waited %s in vain for: %s", limit, what)
		}
		<-time.After(min(max(took/20, leastPause), mostPause))
	}
}
