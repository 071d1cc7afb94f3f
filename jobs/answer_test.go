package jobs_test

import (
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// targetThatAnswers starts a target that reads each request to its end, does the work, and
// answers with the statuses in turn; the last one repeats.
func targetThatAnswers(tb testing.TB, statuses ...int) *effecttest.Target {
	tb.Helper()
	var target *effecttest.Target
	target = effecttest.NewTarget(tb, func(conn net.Conn, _ effecttest.Request) {
		status := statuses[min(len(target.Requests()), len(statuses))-1]
		header := http.Header{"Connection": {"close"}}
		if status == http.StatusServiceUnavailable {
			header.Set("Retry-After", "0")
		}
		effecttest.Reply(conn, strconv.Itoa(status)+" Whatever", header, "")
	})
	return target
}

// A target that cannot deduplicate is never sent to twice by itself: what it answers
// after the work, or what a proxy answers while it is at work, leaves the effect
// indeterminate.
func TestNothingIsSentTwiceWhereNobodyDeduplicates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statuses []int
		retryOn  []int
		requests int
		state    inbox.EffectState
		reason   reasons.Reason
	}{
		"503 after the work":             {[]int{503, 200}, nil, 1, inbox.EffectIndeterminate, reasons.Status503},
		"408 after the work":             {[]int{408, 200}, nil, 1, inbox.EffectIndeterminate, reasons.Status408},
		"409 after the work":             {[]int{409, 200}, nil, 1, inbox.EffectIndeterminate, reasons.Status409},
		"425 after the work":             {[]int{425, 200}, nil, 1, inbox.EffectIndeterminate, reasons.Status425},
		"502 after the work":             {[]int{502, 200}, nil, 1, inbox.EffectIndeterminate, reasons.Status5xx},
		"303 after the work":             {[]int{303, 200}, nil, 1, inbox.EffectIndeterminate, reasons.Redirect},
		"429 precedes it":                {[]int{429, 429, 200}, nil, 3, inbox.EffectDone, ""},
		"503 precedes it, says retry_on": {[]int{503, 429, 200}, []int{429, 503}, 3, inbox.EffectDone, ""},
		"429 is not in retry_on":         {[]int{503, 429, 200}, []int{503}, 2, inbox.EffectIndeterminate, reasons.Status429},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(once, 1)[0]
			target := targetThatAnswers(t, c.statuses...)
			forward, err := forward.New(forward.Config{URL: target.URL, RetryOn: c.retryOn})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(forward.Close)
			b.client(jobs.Config{Senders: map[string]effect.Sender{once: forward}})
			b.eventuallyState(id, c.state)
			if got := len(target.Requests()); got != c.requests || b.row(id).Reason != string(c.reason) {
				t.Errorf("%d requests and reason %q, want %d and %q", got, b.row(id).Reason, c.requests, c.reason)
			}
		})
	}
}

// At a target that deduplicates, an attempt that was answered with a 503 may have
// happened: the window in which the target knows the key counts from it.
func TestAnAnswerAfterTheWorkIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for status, unknown := range map[int]bool{503: true, 409: true, 500: true, 429: false, 400: false} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(repeatable, 1)[0]
			target := targetThatAnswers(t, status)
			forward, err := forward.New(forward.Config{URL: target.URL, Idempotent: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(forward.Close)
			b.client(jobs.Config{Senders: map[string]effect.Sender{repeatable: forward}})
			b.eventuallyState(id, inbox.EffectDead)
			if got := b.count(`SELECT count(*) FROM effect WHERE unknown_since IS NOT NULL`); (got == 1) != unknown {
				t.Errorf("an unknown outcome: %t, want %t", got == 1, unknown)
			}
		})
	}
}
