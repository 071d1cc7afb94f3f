package sequence_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncegate/oncegate/inbox/sequence"
)

// Cases a run of the tests makes, unless -rapid.checks says otherwise.
const cases = "10000"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", cases); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// pick draws one of the choices.
func pick[T any](draw func(int, string) int, what string, choices ...T) T {
	return choices[draw(len(choices), what)]
}

func drawPolicy(draw func(int, string) int) sequence.Policy {
	return sequence.Policy{
		Mode: pick(draw, "mode", sequence.Contiguous, sequence.Contiguous, sequence.Latest, sequence.Arrival), Patience: time.Minute, Warn: 10 * time.Second,
		OnGap:  pick(draw, "on_gap", sequence.GapHold, sequence.GapSkip, sequence.GapFail),
		Late:   pick(draw, "late", sequence.LateDrop, sequence.LateApply, sequence.LateDead),
		OnDead: pick(draw, "on_dead", sequence.DeadBlock, sequence.DeadSkip),
		Ties:   pick(draw, "ties", sequence.Apply, sequence.Hold, sequence.Dead),
		Start:  pick(draw, "start", "1", ""),
	}
}

// live lets a stream live: deliveries in shuffled order with gaps and duplicates,
// attempts that fail, crash and are lost, jobs that are lost; and then lets it come
// to rest. The error is the first thing that must not happen.
func live(decide decider, draw func(int, string) int) error {
	w := newWorld(drawPolicy(draw), decide, draw)
	err := w.live()
	if err != nil {
		return fmt.Errorf("%+v: %w\n%s", w.policy, err, strings.Join(w.events, "\n"))
	}
	return nil
}

func (w *world) live() error {
	var feed []int
	for n := range 2 + w.draw(7, "numbers") {
		switch w.draw(8, "fate") {
		case 0: // never comes
		case 1:
			feed = append(feed, n+1, n+1)
		default:
			feed = append(feed, n+1)
		}
	}
	for i := range feed { // within a window
		j := min(i+w.draw(4, "shift"), len(feed)-1)
		feed[i], feed[j] = feed[j], feed[i]
	}
	for range 4 * len(feed) {
		if len(feed) > 0 && w.draw(3, "deliver") > 0 {
			w.deliver(feed[0], w.draw(5, "filtered") == 0)
			feed = feed[1:]
		}
		if err := w.act(); err != nil {
			return err
		}
	}
	for _, n := range feed {
		w.deliver(n, false)
	}
	return w.rest()
}

// act does one thing that may happen.
func (w *world) act() error {
	if len(w.effects) == 0 {
		return nil
	}
	m := w.effects[w.draw(len(w.effects), "effect")]
	switch w.draw(8, "what") {
	case 0:
		w.now = w.now.Add(pick(w.draw, "time", time.Second, 15*time.Second, 50*time.Second, 2*time.Minute))
	case 1: // a restart, and all jobs are gone
		for _, o := range w.effects {
			o.job = false
		}
		w.sweep()
	case 2:
		if m.state == sequence.DeadLetter && !m.aside || m.state == sequence.Indeterminate { // given fresh attempts
			return w.end(m, sequence.Pending)
		}
		fallthrough
	default:
		if m.state == sequence.Claimed {
			return w.end(m, pick(w.draw, "end", sequence.Done, sequence.Done, sequence.Done, sequence.Retry, sequence.DeadLetter,
				sequence.Indeterminate, sequence.Skipped))
		}
		if m.job {
			return w.claim(m)
		}
	}
	return nil
}

func (w *world) end(m *member, state sequence.State) error {
	w.ended(m, state)
	if state == sequence.Pending {
		m.state, m.job = state, true
		w.log("#%d (%d) gets fresh attempts", m.id, m.number)
		return w.advance(nil, m)
	}
	return w.finish(m, state)
}

func (w *world) rest() error {
	for idle := 0; idle < 3; {
		busy := false
		for _, m := range w.effects {
			if m.state == sequence.Claimed {
				if err := w.end(m, sequence.Done); err != nil {
					return err
				}
				busy = true
			}
			if m.job {
				if err := w.claim(m); err != nil {
					return err
				}
				busy = true
			}
		}
		if idle++; busy {
			idle = 0
			continue
		}
		w.now = w.now.Add(2 * w.policy.Patience)
		w.sweep()
	}
	return w.stuck()
}

// TestMachine: whatever happens, nothing begins out of order, nothing is given up
// too early, and nothing is stuck.
func TestMachine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		if err := live(sequence.Decide, func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }); err != nil {
			t.Fatal(err)
		}
	})
}

// wrong are deciders with one error each.
var wrong = map[string]func(p sequence.Policy, s sequence.Stream, now time.Time, plan *sequence.Plan){
	"runs whatever is asked": func(_ sequence.Policy, s sequence.Stream, _ time.Time, plan *sequence.Plan) {
		for i, d := range plan.Decisions {
			if d.Action == sequence.Wait && d.Cause == "" && s.Effects[i].State == sequence.Pending {
				plan.Decisions[i].Action = sequence.Run
				return
			}
		}
	},
	"never wakes the next one": func(_ sequence.Policy, s sequence.Stream, _ time.Time, plan *sequence.Plan) {
		for i, d := range plan.Decisions {
			if d.Action == sequence.Run && s.Effects[i].State == sequence.Held {
				plan.Decisions[i].Action = sequence.Wait
			}
		}
	},
	"has no patience": func(p sequence.Policy, s sequence.Stream, now time.Time, plan *sequence.Plan) {
		s.GapSince = now.Add(-p.Patience)
		*plan = sequence.Decide(p, s, now)
	},
	"forgets the time of a gap": func(_ sequence.Policy, _ sequence.Stream, _ time.Time, plan *sequence.Plan) { plan.Wake = -1 },
	"gives up what is recorded": func(p sequence.Policy, s sequence.Stream, now time.Time, plan *sequence.Plan) {
		var shown []sequence.Effect // not those that failed, or only leave a number
		for _, e := range s.Effects {
			if e.State != sequence.Retry && !e.State.Settled() {
				shown = append(shown, e)
			}
		}
		if p.Mode == sequence.Contiguous && len(shown) < len(s.Effects) {
			s.Effects = shown
			other := sequence.Decide(p, s, now)
			plan.Applied, plan.Abandoned = other.Applied, other.Abandoned
		}
	},
	"passes over dead ones": func(p sequence.Policy, s sequence.Stream, now time.Time, plan *sequence.Plan) {
		p.OnDead = sequence.DeadSkip
		*plan = sequence.Decide(p, s, now)
	},
	"applies an older version": func(p sequence.Policy, s sequence.Stream, now time.Time, plan *sequence.Plan) {
		if p.Mode == sequence.Latest {
			s.Applied = sequence.Number{}
			*plan = sequence.Decide(p, s, now)
		}
	},
	"does not coalesce": func(p sequence.Policy, _ sequence.Stream, _ time.Time, plan *sequence.Plan) {
		plan.Below = sequence.Number{}
		for i, d := range plan.Decisions {
			if d.Action == sequence.Pass && p.Mode == sequence.Latest {
				plan.Decisions[i].Action = sequence.Wait
			}
		}
	},
	"does not look who is busy": func(p sequence.Policy, s sequence.Stream, now time.Time, plan *sequence.Plan) {
		s.Busy = false
		*plan = sequence.Decide(p, s, now)
	},
	"overlooks ties": func(p sequence.Policy, s sequence.Stream, now time.Time, plan *sequence.Plan) {
		p.Ties = sequence.Apply
		*plan = sequence.Decide(p, s, now)
	},
	"drops what is not late": func(_ sequence.Policy, _ sequence.Stream, _ time.Time, plan *sequence.Plan) {
		if len(plan.Abandoned) == 0 && plan.Wake >= 0 {
			plan.Applied = plan.Applied.Next()
		}
	},
	"sees only what it was shown": func(_ sequence.Policy, _ sequence.Stream, _ time.Time, plan *sequence.Plan) { plan.More = false },
	"runs late ones": func(p sequence.Policy, s sequence.Stream, now time.Time, plan *sequence.Plan) {
		p.Late = sequence.LateApply
		*plan = sequence.Decide(p, s, now)
	},
	"lets arrivals pass an unknown outcome": func(p sequence.Policy, _ sequence.Stream, _ time.Time, plan *sequence.Plan) {
		for i, d := range plan.Decisions {
			if p.Mode == sequence.Arrival && plan.Blocked >= 0 && d.Action == sequence.Wait {
				plan.Decisions[i].Action = sequence.Run
				return
			}
		}
	},
}

// TestMuseumOfDeciders shows that the machine fails each of them, and passes ours.
func TestMuseumOfDeciders(t *testing.T) {
	t.Parallel()
	lives := func(decide decider) error {
		random := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			if err := live(decide, func(n int, _ string) int { return random.IntN(n) }); err != nil {
				return err
			}
		}
		return nil
	}
	if err := lives(sequence.Decide); err != nil {
		t.Errorf("ours: %v", err)
	}
	for name, spoil := range wrong {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := lives(func(p sequence.Policy, s sequence.Stream, now time.Time) (plan sequence.Plan) {
				plan = sequence.Decide(p, s, now)
				spoil(p, s, now, &plan)
				return plan
			})
			if err == nil {
				t.Fatal("the machine does not see that it is wrong")
			}
			first, _, _ := strings.Cut(err.Error(), "\n")
			t.Log(first)
			if errors.Unwrap(err) == nil {
				t.Error("it failed for no reason")
			}
		})
	}
}
