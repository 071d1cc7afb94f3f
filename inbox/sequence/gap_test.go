package sequence_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/sequence"
)

// What becomes of the effect behind a missing number, before and after the patience for it
// has run out: the number 6 is missing, and 7 waits.
func TestGaps(t *testing.T) {
	t.Parallel()
	const hold, skip, fail = sequence.GapHold, sequence.GapSkip, sequence.GapFail
	const block, pass = sequence.DeadBlock, sequence.DeadSkip
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const patience, warn = time.Minute, 10 * time.Second
	for name, c := range map[string]struct {
		onGap   sequence.OnGap
		onDead  sequence.OnDead
		seventh sequence.State
		missing time.Duration // since when; 0 is only now
		want    string        // what is decided about 7 and 8, the number reached, what is given up, what blocks and when to look again
	}{
		"found missing now":                  {hold, block, sequence.Pending, 0, "hold, hold; at 5; []; blocked -1; look at 0 in 10s"},
		"hold, shortly before the warning":   {hold, block, sequence.Pending, warn - 1, "hold, hold; at 5; []; blocked -1; look at 0 in 1ns"},
		"hold, warned":                       {hold, block, sequence.Pending, warn, "hold, hold; at 5; []; blocked -1; warned"},
		"hold, after the patience":           {hold, block, sequence.Pending, patience, "hold, hold; at 5; []; blocked -1; warned"},
		"skip, shortly before it is over":    {skip, block, sequence.Pending, patience - 1, "hold, hold; at 5; []; blocked -1; warned; look at 0 in 1ns"},
		"skip, after the patience":           {skip, block, sequence.Pending, patience, "apply, hold; at 6; [6 to 6]; blocked -1"},
		"fail, shortly before it is over":    {fail, block, sequence.Pending, patience - 1, "hold, hold; at 5; []; blocked -1; warned; look at 0 in 1ns"},
		"fail, after the patience":           {fail, block, sequence.Pending, patience, "dead gap, hold; at 5; []; blocked 0"},
		"fail, and dead ones are skipped":    {fail, pass, sequence.Pending, patience, "dead gap, apply; at 7; [6 to 6]; blocked -1"},
		"behind one that failed for the gap": {fail, block, sequence.DeadLetter, patience, "keep, hold; at 5; []; blocked 0"},
		"behind an unknown outcome":          {skip, block, sequence.Indeterminate, patience, "keep, hold; at 5; []; blocked 0"},
		"behind one that is skipped":         {skip, pass, sequence.DeadLetter, patience, "keep, apply; at 7; [6 to 6]; blocked -1"},
	} {
		stream := sequence.Stream{Applied: decimal(5), StartedAt: now.Add(-time.Hour), Effects: []sequence.Effect{
			{Number: decimal(7), State: c.seventh}, {Number: decimal(8), State: sequence.Pending},
		}}
		if c.missing > 0 {
			stream.GapSince = now.Add(-c.missing)
		}
		plan := sequence.Decide(sequence.Policy{Mode: sequence.Contiguous, Patience: patience, Warn: warn, OnGap: c.onGap, OnDead: c.onDead}, stream, now)
		var said []string
		for _, d := range plan.Decisions {
			said = append(said, strings.TrimSpace(string(d.Action)+" "+string(d.Cause)))
		}
		var given []string
		for _, gap := range plan.Abandoned {
			given = append(given, fmt.Sprintf("%s to %s", gap.First, gap.Last))
		}
		got := fmt.Sprintf("%s; at %s; %s; blocked %d", strings.Join(said, ", "), plan.Applied, given, plan.Blocked)
		if plan.Warned {
			got += "; warned"
		}
		if plan.Wake >= 0 {
			got += fmt.Sprintf("; look at %d in %s", plan.Wake, plan.WakeAt.Sub(now))
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if plan.Warn != (plan.Warned && !stream.Warned) {
			t.Errorf("%s: reported now: %t", name, plan.Warn)
		}
	}
}

// A plan is straight only if it does nothing but run one effect.
func TestStraight(t *testing.T) {
	t.Parallel()
	straight := func() sequence.Plan {
		return sequence.Plan{Blocked: -1, Wake: -1, Decisions: []sequence.Decision{{Action: sequence.Keep}, {Action: sequence.Run}, {Action: sequence.Wait}}}
	}
	plain := straight()
	if run, ok := plain.Straight(); run != 1 || !ok {
		t.Errorf("runs %d, %t", run, ok)
	}
	for what, change := range map[string]func(*sequence.Plan){
		"a gap":              func(p *sequence.Plan) { p.GapSince = time.Unix(1, 0) },
		"a gap was reported": func(p *sequence.Plan) { p.Warned = true },
		"a gap is reported":  func(p *sequence.Plan) { p.Warn = true },
		"a gap is given up":  func(p *sequence.Plan) { p.Abandoned = []sequence.Gap{{First: decimal(6), Last: decimal(6)}} },
		"one blocks":         func(p *sequence.Plan) { p.Blocked = 0 },
		"one is looked at":   func(p *sequence.Plan) { p.Wake = 0 },
		"older ones go":      func(p *sequence.Plan) { p.Below = decimal(1) },
		"there is more":      func(p *sequence.Plan) { p.More = true },
		"one is superseded":  func(p *sequence.Plan) { p.Decisions[0].Action = sequence.Pass },
		"two run":            func(p *sequence.Plan) { p.Decisions[0].Action = sequence.Run },
		"one runs for a cause": func(p *sequence.Plan) {
			p.Decisions[1].Cause = sequence.CauseLate
		},
		"one waits for a cause": func(p *sequence.Plan) { p.Decisions[2].Cause = sequence.CauseTie },
		"none runs":             func(p *sequence.Plan) { p.Decisions[1].Action = sequence.Wait },
	} {
		plan := straight()
		change(&plan)
		if run, ok := plan.Straight(); ok || run >= 0 && what != "none runs" {
			t.Errorf("%s: runs %d, %t", what, run, ok)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	ordered := sequence.Policy{
		Patience: time.Hour, Warn: 6 * time.Minute, OnGap: sequence.GapHold, Late: sequence.LateDrop, OnDead: sequence.DeadBlock,
		NoKey: sequence.Dead, NoNumber: sequence.Dead, Ties: sequence.Dead, Settle: 10 * time.Second,
	}
	for mode, ties := range map[sequence.Mode]sequence.Choice{sequence.Contiguous: sequence.Dead, sequence.Arrival: sequence.Dead, sequence.Latest: sequence.Apply} {
		want := ordered
		want.Mode, want.Ties = mode, ties
		if got := (sequence.Policy{Mode: mode}).WithDefaults(); got != want {
			t.Errorf("%s: %+v, want %+v", mode, got, want)
		}
	}
	if got := (sequence.Policy{}).WithDefaults(); got != (sequence.Policy{}) {
		t.Errorf("unordered: %+v", got)
	}
	given := sequence.Policy{
		Mode: sequence.Latest, Patience: time.Minute, Warn: time.Second, OnGap: sequence.GapSkip, Late: sequence.LateApply, OnDead: sequence.DeadSkip,
		NoKey: sequence.Hold, NoNumber: sequence.Apply, Ties: sequence.Hold, Start: "1", Settle: time.Second,
	}
	if got := given.WithDefaults(); got != given {
		t.Errorf("what is given became %+v", got)
	}
}
