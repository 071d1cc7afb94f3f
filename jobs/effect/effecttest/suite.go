// Package effecttest is the conformance suite of the kinds of effect. [Run] checks what every kind
// must do with a target that misbehaves. The behaviours of a target, and the correct result of
// each, are defined per sort of target: [Forward], [Mail], [Outside], [Database].
package effecttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Topic is something that can happen to an attempt of any kind.
type Topic string

// The topics. A kind has a case for each, or a reason why it has none.
const (
	Succeeds     Topic = "succeeds"
	Refuses      Topic = "refuses for good"
	Later        Topic = "asks to come again"
	Unreachable  Topic = "is not reached"
	Forbidden    Topic = "is at an address that nothing may have"
	BreaksBefore Topic = "breaks off before it can have the effect"
	BreaksAfter  Topic = "breaks off when it may have the effect"
	AnswersAfter Topic = "answers with a fault when it may have the effect"
	StallsBefore Topic = "stalls before it can have the effect"
	StallsAfter  Topic = "stalls when it may have the effect"
	HalfReply    Topic = "half a reply"
	SlowReply    Topic = "a reply drop by drop"
	HugeReply    Topic = "a reply without end"
	Secrets      Topic = "repeats our secrets"
	Repeats      Topic = "gets the same in every attempt"
)

// Topics returns all topics.
func Topics() []Topic {
	return []Topic{
		Succeeds, Refuses, Later, Unreachable, Forbidden, BreaksBefore, BreaksAfter, AnswersAfter, StallsBefore, StallsAfter, HalfReply, SlowReply, HugeReply, Secrets, Repeats,
	}
}

// Kind is a kind under test.
type Kind struct {
	Cases []Case

	// Without has the reason for each topic that has no case.
	Without map[Topic]string

	// Secrets are what the kind was given in confidence. No result may contain one.
	Secrets []string
}

// Case is one behaviour of a target and the correct result.
type Case struct {
	Topic Topic
	Name  string

	// Start connects a new kind to a target that behaves this way.
	Start func(tb testing.TB) Trial

	Want effect.Outcome

	// Reason and Code are checked if they are set.
	Reason, Code string

	// Taken is how many times the target has the complete effect after one attempt.
	Taken int

	// Limit bounds the attempt; 0 is 30 s. An attempt at a target that stalls lasts until the
	// limit, so everything before the stall must fit into it.
	Limit time.Duration

	// Check checks what only this case requires. It may be nil.
	Check func(tb testing.TB, result effect.Result)
}

// Trial is a kind with its target.
type Trial struct {
	// Attempt makes the attempt with this number, counted from 1.
	Attempt func(ctx context.Context, number int) effect.Result

	// Taken returns the effect once for each time that the target has it. Every attempt must
	// produce the same bytes.
	Taken func() []string
}

// Run tests the kind with all of its targets. It makes the test parallel.
func Run(t *testing.T, kind Kind) {
	t.Parallel()
	for _, topic := range Topics() {
		t.Run(string(topic), func(t *testing.T) {
			t.Parallel()
			tried := 0
			for _, c := range kind.Cases {
				if c.Topic == topic {
					tried++
					t.Run(c.Name, func(t *testing.T) { t.Parallel(); try(t, kind, c) })
				}
			}
			if why := kind.Without[topic]; (tried == 0) == (why == "") {
				t.Errorf("%d cases, and the reason to have none is %q", tried, why)
			}
		})
	}
}

func try(t *testing.T, kind Kind, c Case) {
	trial := c.Start(t)
	attempts := 1
	if c.Topic == Repeats {
		attempts = 3
	}
	for number := 1; number <= attempts; number++ {
		limit := c.Limit
		if limit == 0 {
			limit = 30 * time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		result := trial.Attempt(ctx, number)
		cancel()
		if result.Outcome != c.Want || c.Reason != "" && result.Reason != c.Reason || c.Code != "" && result.Code != c.Code {
			t.Errorf("attempt %d: %+v, want %s %s %s", number, result, c.Want, c.Reason, c.Code)
		}
		sound(t, kind, result)
		if c.Check != nil {
			c.Check(t, result)
		}
		if taken := trial.Taken(); len(taken) != c.Taken*number {
			t.Errorf("after %d attempts the target has it %d times, want %d", number, len(taken), c.Taken*number)
		}
	}
	if taken := trial.Taken(); len(slices.Compact(taken)) > 1 {
		t.Errorf("the attempts differ: %q", taken)
	}
}

// sound checks the rules for every result, for any behaviour of the target.
func sound(t *testing.T, kind Kind, r effect.Result) {
	switch r.Outcome {
	case effect.Done:
		if r.Reason != "" {
			t.Errorf("done, and the reason is %q", r.Reason)
		}
	case effect.Retry, effect.Dead, effect.Unknown:
		if !slices.Contains(reasons.All(), r.Reason) {
			t.Errorf("the reason %q is not one of the closed set", r.Reason)
		}
		if r.Stored != nil {
			t.Errorf("not done, and yet a result: %q", r.Stored)
		}
	default:
		t.Errorf("the outcome %q is none", r.Outcome)
	}
	if r.RetryAfter < 0 || r.RetryAfter > 0 && r.Outcome == effect.Done {
		t.Errorf("asked to wait %s", r.RetryAfter)
	}
	for _, text := range []string{r.Excerpt, r.Code} {
		if len(text) > effect.MaxExcerpt || strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text {
			t.Errorf("it cannot be stored: %d bytes, %.60q", len(text), text)
		}
	}
	said := fmt.Sprintf("%+v %s", r, r.Stored)
	for _, secret := range kind.Secrets {
		if strings.Contains(said, secret) {
			t.Errorf("the result holds the secret %q: %s", secret, said)
		}
	}
}
