package sequence_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/sequence"
)

// What is decided about n+1, by the mode and what n is: the design's table. A second
// value is for the policy that skips dead ones.
func TestTable(t *testing.T) {
	t.Parallel()
	const hold, run = sequence.Wait, sequence.Run
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for mode, cells := range map[sequence.Mode]map[sequence.State][2]sequence.Action{
		sequence.Contiguous: {
			sequence.Pending: {hold, hold}, sequence.Held: {hold, hold}, sequence.Claimed: {hold, hold}, sequence.Retry: {hold, hold},
			sequence.DeadLetter: {hold, run}, sequence.Indeterminate: {hold, run}, sequence.Done: {run, run},
			sequence.Superseded: {run, run}, sequence.Skipped: {run, run}, sequence.Duplicate: {run, run},
		},
		sequence.Latest: {
			sequence.Pending: {run, run}, sequence.Held: {run, run}, sequence.Claimed: {hold, hold}, sequence.Retry: {run, run},
			sequence.DeadLetter: {run, run}, sequence.Indeterminate: {run, run}, sequence.Done: {run, run},
			sequence.Superseded: {run, run}, sequence.Skipped: {run, run}, sequence.Duplicate: {run, run},
		},
		sequence.Arrival: {
			sequence.Pending: {hold, hold}, sequence.Held: {hold, hold}, sequence.Claimed: {hold, hold}, sequence.Retry: {hold, hold},
			sequence.DeadLetter: {run, run}, sequence.Indeterminate: {hold, run}, sequence.Done: {run, run},
			sequence.Superseded: {run, run}, sequence.Skipped: {run, run}, sequence.Duplicate: {run, run},
		},
	} {
		for state, wants := range cells {
			for i, onDead := range []sequence.OnDead{sequence.DeadBlock, sequence.DeadSkip} {
				t.Run(fmt.Sprintf("%s/%s/%s", mode, state, onDead), func(t *testing.T) {
					t.Parallel()
					plan := sequence.Decide(sequence.Policy{Mode: mode, OnDead: onDead, Start: "7"}, sequence.Stream{
						StartedAt: now, Effects: []sequence.Effect{{Number: decimal(7), State: state}, {Number: decimal(8), State: sequence.Pending}},
					}, now)
					if got := plan.Decisions[1].Action; got != wants[i] {
						t.Errorf("n+1: %s, want %s", got, wants[i])
					}
					superseded := mode == sequence.Latest && state.Waiting()
					if got := plan.Decisions[0].Action == sequence.Pass; got != superseded {
						t.Errorf("n superseded: %t, want %t", got, superseded)
					}
					if blocked := wants[i] == hold && (state == sequence.DeadLetter || state == sequence.Indeterminate); (plan.Blocked == 0) != blocked {
						t.Errorf("blocked by %d", plan.Blocked)
					}
				})
			}
		}
	}
}

// In mode latest what may have been applied is not followed by an older version, and what
// certainly was not takes no place: each beside the other, and in either order.
func TestLatestBesideWhatMayHaveHappened(t *testing.T) {
	t.Parallel()
	const dead, unknown, pending, done = sequence.DeadLetter, sequence.Indeterminate, sequence.Pending, sequence.Done
	at := func(n int, state sequence.State) sequence.Effect {
		return sequence.Effect{Number: decimal(n), State: state}
	}
	for name, c := range map[string]struct {
		applied   int // before; 0 is none
		effects   []sequence.Effect
		decisions string // the action for each effect
		after     int    // the number reached
	}{
		"older than an unknown one":                    {0, []sequence.Effect{at(5, pending), at(7, unknown)}, "supersede keep", 7},
		"older than a dead one":                        {0, []sequence.Effect{at(5, pending), at(7, dead)}, "apply keep", 0},
		"older than an unknown and a newer dead one":   {0, []sequence.Effect{at(5, pending), at(6, unknown), at(7, dead)}, "supersede keep keep", 6},
		"older than a dead and a newer unknown one":    {0, []sequence.Effect{at(5, pending), at(6, dead), at(7, unknown)}, "supersede keep keep", 7},
		"between an unknown and a newer dead one":      {0, []sequence.Effect{at(5, unknown), at(6, pending), at(7, dead)}, "keep apply keep", 5},
		"between a dead and a newer unknown one":       {0, []sequence.Effect{at(5, dead), at(6, pending), at(7, unknown)}, "keep supersede keep", 7},
		"newer than both":                              {0, []sequence.Effect{at(5, unknown), at(6, dead), at(7, pending)}, "keep keep apply", 5},
		"an unknown one that is older than what is":    {6, []sequence.Effect{at(5, unknown), at(7, pending)}, "keep apply", 6},
		"an unknown one beside a done and a dead one":  {0, []sequence.Effect{at(4, done), at(5, pending), at(6, unknown), at(7, dead)}, "keep supersede keep keep", 6},
		"a done one beside an older unknown one":       {0, []sequence.Effect{at(4, unknown), at(5, pending), at(6, done), at(7, dead)}, "keep supersede keep keep", 6},
		"only dead ones":                               {0, []sequence.Effect{at(5, dead), at(6, dead), at(7, pending)}, "keep keep apply", 0},
		"as new as a dead one, which took no place":    {0, []sequence.Effect{at(6, dead), at(6, pending)}, "keep apply", 0},
		"as new as an unknown one beside a dead one":   {0, []sequence.Effect{at(6, unknown), {Number: decimal(6), State: pending, Twin: true}, at(7, dead)}, "keep hold keep", 6},
		"as new as a dead one that follows an unknown": {0, []sequence.Effect{at(5, unknown), at(6, dead), {Number: decimal(6), State: pending, Twin: true}}, "keep keep apply", 5},
		"two waiting ones newer than an unknown one":   {0, []sequence.Effect{at(5, unknown), at(6, pending), at(7, dead), at(8, pending)}, "keep supersede keep apply", 5},
		"two waiting ones on both sides of an unknown": {0, []sequence.Effect{at(5, pending), at(6, unknown), at(7, dead), at(8, pending)}, "supersede keep keep apply", 6},
		"two waiting ones, both older than an unknown": {0, []sequence.Effect{at(5, pending), at(6, pending), at(7, dead), at(8, unknown)}, "supersede supersede keep keep", 8},
		"two waiting ones, both older than a dead one": {0, []sequence.Effect{at(5, pending), at(6, pending), at(7, dead)}, "supersede apply keep", 0},
	} {
		for _, onDead := range []sequence.OnDead{sequence.DeadBlock, sequence.DeadSkip} {
			stream := sequence.Stream{Effects: c.effects}
			if c.applied > 0 {
				stream.Applied = decimal(c.applied)
			}
			plan := sequence.Decide(sequence.Policy{Mode: sequence.Latest, OnDead: onDead, Ties: sequence.Hold}, stream, time.Unix(0, 0))
			actions := make([]string, len(plan.Decisions))
			for i := range plan.Decisions {
				actions[i] = string(plan.Decisions[i].Action)
			}
			var after sequence.Number
			if c.after > 0 {
				after = decimal(c.after)
			}
			if got := strings.Join(actions, " "); got != c.decisions || plan.Applied.Compare(after) != 0 {
				t.Errorf("%s (on_dead %s): %s and reached %s, want %s and %s", name, onDead, got, plan.Applied, c.decisions, after)
			}
		}
	}
}

// Of two waiting effects with the newest number the first takes it, and the second is a tie.
func TestLatestTies(t *testing.T) {
	t.Parallel()
	for ties, want := range map[sequence.Choice]sequence.Decision{
		sequence.Apply: {Action: sequence.Wait}, sequence.Hold: {Action: sequence.Wait, Cause: sequence.CauseTie}, sequence.Dead: {Action: sequence.Fail, Cause: sequence.CauseTie},
	} {
		plan := sequence.Decide(sequence.Policy{Mode: sequence.Latest, Ties: ties}, sequence.Stream{Effects: []sequence.Effect{
			{Number: decimal(6), State: sequence.Pending}, {Number: decimal(6), State: sequence.Pending},
		}}, time.Unix(0, 0))
		if first, second := plan.Decisions[0], plan.Decisions[1]; first != (sequence.Decision{Action: sequence.Run}) || second != want {
			t.Errorf("ties %s: %+v and %+v, want the second %+v", ties, first, second, want)
		}
	}
}
