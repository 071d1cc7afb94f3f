package inbox_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

func TestRetryPolicy(t *testing.T) {
	t.Parallel()
	policy := inbox.RetryPolicy{Attempts: 4, Base: time.Second, Max: 5 * time.Second, Deadline: time.Minute}
	for name, c := range map[string]struct {
		policy  inbox.RetryPolicy
		failure inbox.Failure
		random  float64
		wait    time.Duration
		giveUp  reasons.Reason
	}{
		"first, least":                 {policy, inbox.Failure{Attempt: 1}, 0, 0, ""},
		"first, half":                  {policy, inbox.Failure{Attempt: 1}, 0.5, 500 * time.Millisecond, ""},
		"second doubles":               {policy, inbox.Failure{Attempt: 2}, 0.5, time.Second, ""},
		"third doubles again":          {policy, inbox.Failure{Attempt: 3}, 0.5, 2 * time.Second, ""},
		"max":                          {inbox.RetryPolicy{Attempts: 100, Base: time.Second, Max: 5 * time.Second}, inbox.Failure{Attempt: 20}, 0.5, 2500 * time.Millisecond, ""},
		"no overflow":                  {inbox.RetryPolicy{Attempts: 1000, Base: time.Hour, Max: 2 * time.Hour}, inbox.Failure{Attempt: 999}, 0.5, time.Hour, ""},
		"no overflow at 38":            {inbox.RetryPolicy{Attempts: 1000, Base: time.Hour, Max: 2 * time.Hour}, inbox.Failure{Attempt: 38}, 0.5, time.Hour, ""},
		"exhausted":                    {policy, inbox.Failure{Attempt: 4}, 0.5, 0, reasons.Exhausted},
		"beyond exhausted":             {policy, inbox.Failure{Attempt: 9}, 0.5, 0, reasons.Exhausted},
		"Retry-After is a least":       {policy, inbox.Failure{Attempt: 1, RetryAfter: 10 * time.Second}, 0.5, 10 * time.Second, ""},
		"more than Retry-After":        {policy, inbox.Failure{Attempt: 3, RetryAfter: time.Second}, 0.5, 2 * time.Second, ""},
		"Retry-After is bounded":       {inbox.RetryPolicy{}, inbox.Failure{Attempt: 1, RetryAfter: 1000 * time.Hour}, 0, 24 * time.Hour, ""},
		"before the deadline":          {policy, inbox.Failure{Attempt: 1, Age: 59 * time.Second}, 0.5, 500 * time.Millisecond, ""},
		"after the deadline":           {policy, inbox.Failure{Attempt: 1, Age: 61 * time.Second}, 0, 0, reasons.Deadline},
		"the wait passes it":           {policy, inbox.Failure{Attempt: 1, Age: 30 * time.Second, RetryAfter: 31 * time.Second}, 0, 0, reasons.Deadline},
		"default base":                 {inbox.RetryPolicy{}, inbox.Failure{Attempt: 1}, 0.5, 2500 * time.Millisecond, ""},
		"default attempts, 11th":       {inbox.RetryPolicy{}, inbox.Failure{Attempt: 11}, 0.5, 30 * time.Minute, ""},
		"default attempts, 12th":       {inbox.RetryPolicy{}, inbox.Failure{Attempt: 12}, 0.5, 0, reasons.Exhausted},
		"one attempt and no more":      {inbox.RetryPolicy{Attempts: 1}, inbox.Failure{Attempt: 1}, 0.5, 0, reasons.Exhausted},
		"a base above the default max": {inbox.RetryPolicy{Base: 2 * time.Hour}, inbox.Failure{Attempt: 1}, 0.5, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait, giveUp := c.policy.Next(c.failure, func() float64 { return c.random })
			if wait != c.wait || giveUp != c.giveUp {
				t.Errorf("got %s %q, want %s %q", wait, giveUp, c.wait, c.giveUp)
			}
		})
	}
}

func TestRetryPolicyIsChecked(t *testing.T) {
	t.Parallel()
	for _, p := range []inbox.RetryPolicy{{Attempts: -1}, {Base: -1}, {Max: -1}, {Deadline: -1}, {Base: time.Hour, Max: time.Minute}} {
		if p.Validate() == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
	if err := (inbox.RetryPolicy{}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestReasonsAreAClosedSet(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]reasons.Reason{"timeout": reasons.Timeout, "": reasons.Other, "x\x00": reasons.Other, "status_418": reasons.Other} {
		if got := reasons.Of(said); got != want {
			t.Errorf("%q becomes %q, want %q", said, got, want)
		}
	}
	for reason, want := range map[reasons.Reason]bool{
		reasons.Exhausted: true, reasons.Status4xx: true, reasons.SQL: true,
		reasons.Status410: false, reasons.BodyGone: false, reasons.Render: false, "made up": false,
	} {
		if reason.Retriable() != want {
			t.Errorf("%s retriable: %t, want %t", reason, !want, want)
		}
	}
}
