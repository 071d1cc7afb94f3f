package sequence_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/sequence"
)

// decider is [sequence.Decide], or one of the museum.
type decider func(sequence.Policy, sequence.Stream, time.Time) sequence.Plan

// world is one stream with everything around it that the decider does not see:
// jobs, leases, deliveries. It knows by rules of its own what must never happen.
type world struct {
	policy sequence.Policy
	decide decider
	draw   func(n int, what string) int // 0 to n-1

	now, began time.Time
	effects    []*member // by receipt
	applied    sequence.Number
	gapSince   time.Time
	warned     bool

	first     int // the number that the order begins with
	abandoned map[int]bool
	over      map[int]bool // the order has come past it
	missing   time.Time    // since when the number that is waited for is missing
	missed    int          // that number
	newest    int          // the newest that may have been applied
	events    []string
}

type member struct {
	id, number int
	state      sequence.State
	filtered   bool
	aside      bool
	late       bool
	job        bool
	wakeAt     time.Time
}

func newWorld(p sequence.Policy, decide decider, draw func(int, string) int) *world {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{policy: p.WithDefaults(), decide: decide, draw: draw, now: start, abandoned: map[int]bool{}, over: map[int]bool{}, first: 1}
	return w
}

func (w *world) log(format string, args ...any) {
	w.events = append(w.events, fmt.Sprintf(format, args...))
}

func (w *world) deliver(number int, filtered bool) {
	if len(w.effects) == 0 {
		w.began = w.now
	}
	m := &member{id: len(w.effects), number: number, state: sequence.Pending, job: true, filtered: filtered && w.policy.Mode == sequence.Contiguous}
	w.effects = append(w.effects, m)
	w.log("deliver %d as #%d", number, m.id)
	w.look()
}

func decimal(n int) sequence.Number {
	out, err := sequence.ParseNumber(fmt.Sprint(n))
	if err != nil {
		panic(err)
	}
	return out
}

func (w *world) sorted() []*member {
	out := slices.Clone(w.effects)
	slices.SortStableFunc(out, func(a, b *member) int { return a.number - b.number })
	return out
}

func (w *world) twin(m *member) bool {
	return slices.ContainsFunc(w.effects, func(o *member) bool { return o != m && o.number == m.number })
}

const shown = 3 // effects that a decision sees: few, so that they often do not suffice

// stream is what a store would show of the stream.
func (w *world) stream(ended ...*member) (sequence.Stream, []*member) {
	s := sequence.Stream{Applied: w.applied, StartedAt: w.began, GapSince: w.gapSince, Warned: w.warned}
	var picked []*member
	add := func(m *member) {
		if !slices.Contains(picked, m) {
			picked = append(picked, m)
		}
	}
	above, waits, lates := 0, 0, 0
	for _, m := range w.sorted() {
		over := decimal(m.number).Compare(w.applied) > 0
		switch w.policy.Mode {
		case sequence.Contiguous:
			if m.aside {
				continue
			}
			if over {
				if above++; above <= shown {
					add(m)
					s.Shown = decimal(m.number)
				} else {
					s.Cut = true
				}
				if m.state.Waiting() && waits == 0 {
					waits++
					add(m)
				}
			} else if m.state.Waiting() && lates < shown {
				lates++
				add(m)
			}
		case sequence.Arrival:
			if (m.state.Waiting() || m.state == sequence.Claimed) && above < shown {
				above++
				add(m)
			}
			if m.state == sequence.Indeterminate && waits == 0 {
				waits++
				add(m)
			}
		case sequence.Latest, sequence.None:
		}
	}
	if w.policy.Mode == sequence.Latest {
		for _, m := range slices.Backward(w.sorted()) {
			if (m.state.Waiting() || m.state == sequence.Claimed) && !m.aside && above < shown {
				above++
				add(m)
			}
		}
	}
	for _, m := range ended {
		add(m)
	}
	slices.SortStableFunc(picked, func(a, b *member) int {
		if a.number != b.number {
			return a.number - b.number
		}
		return a.id - b.id
	})
	for _, m := range picked {
		s.Effects = append(s.Effects, sequence.Effect{Number: decimal(m.number), State: m.state, Filtered: m.filtered, Aside: m.aside, Twin: w.twin(m)})
	}
	for _, m := range w.effects {
		s.Busy = s.Busy || m.state == sequence.Claimed && !slices.Contains(picked, m)
	}
	return s, picked
}

// advance decides and does what was decided. asked is claimed if it may run;
// another one that may run is claimed in a chain, or gets a job.
func (w *world) advance(asked *member, ended ...*member) error {
	if asked != nil {
		ended = append(ended, asked)
	}
	for round := 0; ; round++ {
		if round > 200 {
			return errors.New("the decisions do not come to an end")
		}
		s, picked := w.stream(ended...)
		plan := w.decide(w.policy, s, w.now)
		for _, gap := range plan.Abandoned {
			if err := w.abandon(gap); err != nil {
				return err
			}
		}
		if err := w.begins(plan.Applied); err != nil {
			return err
		}
		w.applied, w.gapSince, w.warned = plan.Applied, plan.GapSince, plan.Warned
		for i, d := range plan.Decisions {
			if err := w.do(picked[i], d, picked[i] == asked, plan.Wake == i, plan.WakeAt); err != nil {
				return err
			}
		}
		if !plan.Below.IsZero() {
			for _, m := range w.effects {
				if m.state.Waiting() && !m.aside && decimal(m.number).Compare(plan.Below) < 0 {
					m.state, m.job = sequence.Superseded, false
				}
			}
		}
		w.look()
		if !plan.More {
			return nil
		}
		asked = nil
	}
}

// begins checks the first number of an order that learns it.
func (w *world) begins(applied sequence.Number) error {
	if !w.applied.IsZero() || applied.IsZero() || w.policy.Start != "" || w.policy.Mode != sequence.Contiguous {
		return nil
	}
	w.first = w.sorted()[0].number
	if w.now.Sub(w.began) < w.policy.Settle || applied.Compare(decimal(w.first-1)) < 0 {
		return fmt.Errorf("the order begins after %s, %s after the first event, and the smallest number is %d", applied, w.now.Sub(w.began), w.first)
	}
	w.look()
	return nil
}

func (w *world) do(m *member, d sequence.Decision, asked, wake bool, at time.Time) error {
	switch d.Action {
	case sequence.Run:
		m.late = d.Cause == sequence.CauseLate || d.Cause == sequence.CauseTie
		if asked || w.draw(2, "chain") == 0 {
			return w.start(m)
		}
		if m.state == sequence.Held {
			m.state, m.job = sequence.Pending, true
		}
	case sequence.Wait:
		if d.Cause == sequence.CauseTie {
			m.aside = true
		}
		if asked || m.aside {
			m.state, m.job, m.wakeAt = sequence.Held, false, time.Time{}
		}
		if wake && m.state == sequence.Held {
			m.wakeAt = at
		}
	case sequence.Pass:
		m.state, m.job = sequence.Superseded, false
	case sequence.Skip:
		m.state, m.job = sequence.Skipped, false
	case sequence.Fail:
		m.state, m.job, m.aside, m.late = sequence.DeadLetter, false, d.Cause == sequence.CauseTie, d.Cause == sequence.CauseLate
	case sequence.Keep:
	}
	return nil
}

// claim is a wake-up.
func (w *world) claim(m *member) error {
	m.job = false
	if !m.state.Waiting() || m.aside {
		return nil
	}
	w.log("claim #%d (%d, %s)", m.id, m.number, m.state)
	return w.advance(m)
}

// finish ends an attempt.
func (w *world) finish(m *member, state sequence.State) error {
	w.log("#%d (%d) ends as %s", m.id, m.number, state)
	m.state, m.job = state, state == sequence.Retry
	return w.advance(nil, m)
}

// sweep gives jobs to what is due and has none. It looks at no held effect whose
// time has not come.
func (w *world) sweep() {
	for _, m := range w.effects {
		if m.state == sequence.Pending || m.state == sequence.Retry || m.state == sequence.Held && !m.wakeAt.IsZero() && !w.now.Before(m.wakeAt) {
			m.job = true
		}
	}
}

// passed: the number lets those behind it go.
func (w *world) passed(number int) bool {
	if w.over[number] {
		return true
	}
	passed := w.abandoned[number]
	for _, m := range w.effects {
		if m.number != number || m.aside || m.late {
			continue
		}
		dead := m.state == sequence.DeadLetter || m.state == sequence.Indeterminate
		switch {
		case m.state.Settled() || dead && w.policy.OnDead == sequence.DeadSkip:
			passed = true
		case w.policy.Ties == sequence.Apply || m.state != sequence.Pending && m.state != sequence.Held:
			return false
		}
	}
	return passed
}

func (w *world) recorded(number int) bool {
	return slices.ContainsFunc(w.effects, func(m *member) bool { return m.number == number })
}

// look keeps the world's own account of how long the next number is missing.
func (w *world) look() {
	if w.applied.IsZero() && w.policy.Start == "" {
		return // it is not known what is waited for
	}
	next := w.first
	for ; w.passed(next); next++ {
		w.over[next] = true // it stays so, whatever becomes of a dead one
	}
	if next != w.missed || w.recorded(next) {
		w.missed, w.missing = next, w.now
	}
}

func (w *world) abandon(gap sequence.Gap) error {
	if w.policy.OnGap == sequence.GapHold {
		return fmt.Errorf("the gap from %s to %s was given up, against the policy", gap.First, gap.Last)
	}
	for n := w.first; decimal(n).Compare(gap.Last) <= 0; n++ {
		if decimal(n).Compare(gap.First) < 0 {
			continue
		}
		if w.recorded(n) {
			return fmt.Errorf("%d was given up, but is recorded", n)
		}
		if n == w.missed && w.now.Sub(w.missing) < w.policy.Patience {
			return fmt.Errorf("%d was given up after %s, patience is %s", n, w.now.Sub(w.missing), w.policy.Patience)
		}
		w.abandoned[n] = true
	}
	return nil
}

// start checks by the world's own rules that an effect may begin.
func (w *world) start(m *member) error {
	w.log("#%d (%d) begins", m.id, m.number)
	for _, o := range w.effects {
		if o.state == sequence.Claimed {
			return fmt.Errorf("#%d begins while #%d is claimed", m.id, o.id)
		}
	}
	if m.filtered {
		return fmt.Errorf("#%d begins, though the route does not take it", m.id)
	}
	switch w.policy.Mode {
	case sequence.Contiguous:
		if m.late && w.policy.Late != sequence.LateApply && !(w.twin(m) && w.policy.Ties == sequence.Apply) {
			return fmt.Errorf("#%d begins late, against the policy", m.id)
		}
		for n := w.first; n < m.number && !m.late; n++ {
			if !w.passed(n) {
				return fmt.Errorf("%d begins before %d is settled or passed over", m.number, n)
			}
		}
		for _, o := range w.effects {
			if o != m && o.number == m.number && w.policy.Ties != sequence.Apply && !m.late && !o.aside && o.state != sequence.Held && o.state != sequence.Pending {
				return fmt.Errorf("#%d begins, but #%d has its number and is %s", m.id, o.id, o.state)
			}
		}
	case sequence.Latest:
		if m.number < w.newest {
			return fmt.Errorf("%d begins after %d was applied", m.number, w.newest)
		}
		for _, o := range w.effects {
			if o.number > m.number && o.state.Waiting() && !o.aside {
				return fmt.Errorf("%d begins while %d, which is newer, waits", m.number, o.number)
			}
		}
	case sequence.Arrival:
		for _, o := range w.effects {
			if o.state == sequence.Indeterminate && w.policy.OnDead == sequence.DeadBlock {
				return fmt.Errorf("#%d begins, but #%d is indeterminate", m.id, o.id)
			}
			if o.state.Waiting() && (o.number < m.number || o.number == m.number && o.id < m.id) {
				return fmt.Errorf("#%d begins before #%d", m.id, o.id)
			}
		}
	case sequence.None:
	}
	m.state, m.job = sequence.Claimed, false
	return nil
}

// applied notes what an end means for what may begin later.
func (w *world) ended(m *member, state sequence.State) {
	if state.Settled() || state == sequence.Indeterminate {
		w.newest = max(w.newest, m.number)
	}
}

// stuck names an effect that nothing will set going though nothing stands in its
// way. It is asked when all jobs have run and all times have come.
func (w *world) stuck() error {
	for _, m := range w.sorted() {
		switch {
		case m.state == sequence.Pending || m.state == sequence.Retry || m.state == sequence.Claimed:
			return fmt.Errorf("#%d (%d) is %s at rest", m.id, m.number, m.state)
		case m.state != sequence.Held || m.aside:
		case w.policy.Mode == sequence.Contiguous:
			if !w.behind(m) {
				return fmt.Errorf("#%d (%d) is held, but nothing is before it", m.id, m.number)
			}
		case w.policy.Mode == sequence.Arrival && slices.ContainsFunc(w.effects, func(o *member) bool { return o.state == sequence.Indeterminate }):
			return nil
		default:
			return fmt.Errorf("#%d (%d) is held for ever", m.id, m.number)
		}
	}
	return nil
}

// behind reports whether something stands before a held effect that only a person
// can move.
func (w *world) behind(m *member) bool {
	blocks := func(o *member) bool {
		return o != m && !o.aside && !o.late && w.policy.OnDead == sequence.DeadBlock && (o.state == sequence.DeadLetter || o.state == sequence.Indeterminate)
	}
	for n := w.first; n < m.number; n++ {
		if w.passed(n) {
			continue
		}
		failed := func(o *member) bool { return blocks(o) && o.number > n && o.number <= m.number }
		return w.recorded(n) || w.policy.OnGap == sequence.GapHold || slices.ContainsFunc(w.effects, failed)
	}
	return slices.ContainsFunc(w.effects, func(o *member) bool { return blocks(o) && o.number == m.number })
}
