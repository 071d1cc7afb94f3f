package sequence

import "time"

// State is where an effect stands. The words are those of the stored states.
type State string

// The states.
const (
	Pending       State = "pending"
	Claimed       State = "claimed"
	Retry         State = "retry"
	Held          State = "held"
	Done          State = "done"
	DeadLetter    State = "dead"
	Indeterminate State = "indeterminate"
	Superseded    State = "superseded"
	Skipped       State = "skipped"
	Duplicate     State = "duplicate"
)

// Settled reports whether nothing more will happen to an effect of the state.
func (s State) Settled() bool {
	return s == Done || s == Superseded || s == Skipped || s == Duplicate
}

// Waiting reports whether an effect of the state would go on by itself, or would
// if nothing were before it.
func (s State) Waiting() bool { return s == Pending || s == Retry || s == Held }

// Effect is one effect of a stream.
type Effect struct {
	Number Number
	State  State

	// Filtered: the route does not take its type; it only leaves its number behind.
	Filtered bool

	// Aside: it was put aside as a tie, and takes no place in the order.
	Aside bool

	// Twin: another effect has its number. Needed only of one whose number is not
	// above Applied.
	Twin bool

	// Waived: a person has decided that it takes part in the order although another
	// effect has its number.
	Waived bool
}

// Stream is what is known of one sequence key of one route.
type Stream struct {
	// Applied is the number up to which the order has come; none if it has not
	// begun. In mode contiguous everything up to it is settled or passed over; in
	// mode latest it is the newest that was, or may have been, applied.
	Applied Number

	// StartedAt is when the first effect of the key was seen.
	StartedAt time.Time

	// GapSince is since when the number after Applied is missing; Warned, that this
	// was reported.
	GapSince time.Time
	Warned   bool

	// Busy: an effect that is not in Effects is claimed.
	Busy bool

	// Effects are in the order of their numbers and, among equal ones, of receipt.
	// In mode contiguous: the first ones above Applied in whatever state, the first
	// waiting one above it, and the waiting ones that are not above it. In mode latest: the newest
	// that are waiting or claimed, and those just ended. In mode arrival: the first
	// ones that are waiting or claimed, and the first indeterminate one.
	Effects []Effect

	// Cut: there are more above Applied than those in Effects. All with smaller
	// numbers than Shown are there.
	Cut   bool
	Shown Number
}

// Action is what becomes of an effect.
type Action string

// The actions.
const (
	// Keep: it is claimed, at rest or settled, and stays what it is.
	Keep Action = "keep"
	// Run: it may be claimed now.
	Run Action = "apply"
	// Wait: it is held.
	Wait Action = "hold"
	// Pass: it is superseded.
	Pass Action = "supersede"
	// Skip: it is skipped, and has left its number behind.
	Skip Action = "skip"
	// Fail: it becomes dead.
	Fail Action = "dead"
)

// Cause is why, where it does not follow from the order itself.
type Cause string

// The causes.
const (
	// CauseLate: its number was passed before it came.
	CauseLate Cause = "late"
	// CauseTie: another effect has its number.
	CauseTie Cause = "tie"
	// CauseGap: the number before it is missing.
	CauseGap Cause = "gap"
	// CauseFilter: the route does not take its type.
	CauseFilter Cause = "filter"
	// CauseNumber: its number has no successor.
	CauseNumber Cause = "number"
)

// Decision is what becomes of one effect.
type Decision struct {
	Action Action
	Cause  Cause
}

// Gap are numbers that were given up.
type Gap struct{ First, Last Number }

// Plan is what becomes of a stream.
type Plan struct {
	// Decisions are in the order of Effects. At most one says Run, unless the route
	// is unordered.
	Decisions []Decision

	Applied  Number
	GapSince time.Time
	Warned   bool

	// Warn: the gap has become worth reporting just now.
	Warn bool

	// Abandoned are the gaps that were given up.
	Abandoned []Gap

	// Blocked is the effect that stops the key, and Wake the held one that is to be
	// looked at again at WakeAt; -1 for none.
	Blocked, Wake int
	WakeAt        time.Time

	// Below: what waits with a smaller number is superseded, also what is not in
	// Effects; none if nothing is.
	Below Number

	// More: the effects shown did not suffice. Show it the stream again after doing
	// what it says.
	More bool
}

// Decide says what becomes of a stream. It is to be asked whenever an effect of the
// stream is to be claimed or has ended, under the stream's lock, with everything
// read under that lock.
func Decide(p Policy, s Stream, now time.Time) Plan {
	d := decider{
		policy: p.WithDefaults(), stream: s, now: now, aside: make([]bool, len(s.Effects)),
		plan: Plan{
			Decisions: make([]Decision, len(s.Effects)), Applied: s.Applied, GapSince: s.GapSince, Warned: s.Warned,
			Blocked: -1, Wake: -1,
		},
	}
	for i := range s.Effects {
		e := &s.Effects[i]
		d.plan.Decisions[i].Action = Keep
		d.aside[i] = e.Aside
		switch {
		case e.State == Claimed:
			d.busy = true
		case e.State.Waiting() && e.Filtered:
			d.plan.Decisions[i] = Decision{Action: Skip, Cause: CauseFilter}
		case e.State.Waiting() && !e.Aside:
			d.plan.Decisions[i].Action = Wait
		}
	}
	d.busy = d.busy || s.Busy
	switch d.policy.Mode {
	case Contiguous:
		d.contiguous()
	case Latest:
		d.latest()
	case Arrival:
		d.arrival()
	default:
		for i := range d.plan.Decisions {
			if d.waits(i) {
				d.set(i, Run, "")
			}
		}
	}
	return d.plan
}

type decider struct {
	policy Policy
	stream Stream
	now    time.Time
	plan   Plan
	aside  []bool // of those that take no place
	busy   bool   // one is claimed, or was chosen to be
}

// waits reports whether effect i waits, and nothing else was decided about it.
func (d *decider) waits(i int) bool { return d.plan.Decisions[i].Action == Wait }

func (d *decider) set(i int, action Action, cause Cause) {
	d.plan.Decisions[i] = Decision{Action: action, Cause: cause}
}

// run chooses effect i to be claimed, unless another one is before it.
func (d *decider) run(i int, cause Cause) {
	action := Run
	if d.busy {
		action = Wait
	}
	d.set(i, action, cause)
	d.busy = true
}

// tie decides about effect i, whose number another one has and which is behind it.
// It reports false if it is to take part in the order all the same.
func (d *decider) tie(i int) bool {
	if d.stream.Effects[i].Waived {
		return false
	}
	switch d.policy.Ties {
	case Apply:
		return false
	case Hold:
		d.set(i, Wait, CauseTie)
	case Dead:
		d.set(i, Fail, CauseTie)
	}
	return true
}

// passable reports whether an effect lets those behind it go.
func (d *decider) passable(e *Effect) bool {
	return e.State.Settled() || (e.State == DeadLetter || e.State == Indeterminate) && d.policy.OnDead == DeadSkip
}
