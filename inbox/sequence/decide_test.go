package sequence_test

import (
	"fmt"
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
