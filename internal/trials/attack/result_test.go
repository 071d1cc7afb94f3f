package main

import (
	"strings"
	"testing"
	"time"
)

// The verdict notices errors of a hundredth and a p99 of twice the quiet one, and nothing less.
func TestTheVerdict(t *testing.T) {
	t.Parallel()
	times := func(n int, p99 time.Duration) measurement {
		m := measurement{sent: n}
		for i := range n {
			took := time.Millisecond
			if i >= n*99/100 {
				took = p99
			}
			m.latencies = append(m.latencies, took)
		}
		return m
	}
	failing := times(1000, 10*time.Millisecond)
	failing.failed, failing.firstError = 10, "status 503"
	fine := times(1000, 19*time.Millisecond)
	fine.failed = 9
	quiet := times(1000, 10*time.Millisecond)
	for name, test := range map[string]struct {
		rounds []round
		broken string
	}{
		"as good as nothing":     {[]round{{quiet, fine}}, ""},
		"one in a hundred":       {[]round{{quiet, failing}}, "10 of 1000 good deliveries failed, 1.0 %; the first: status 503"},
		"twice as slow":          {[]round{{quiet, times(1000, 20*time.Millisecond)}}, "2.00 times"},
		"one bad round of three": {[]round{{quiet, fine}, {quiet, times(1000, time.Second)}, {quiet, times(1000, 5*time.Millisecond)}}, ""},
		"nothing delivered":      {[]round{{quiet, measurement{}}}, "no good delivery"},
	} {
		r := result{name: name, rounds: test.rounds}
		if got := strings.Join(r.violations(), "; "); (test.broken == "") != (got == "") || !strings.Contains(got, test.broken) {
			t.Errorf("%s: %q, want %q", name, got, test.broken)
		}
	}
}
