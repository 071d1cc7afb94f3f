package sequence

import "time"

// State is the state of an effect. The values are the ones that the database stores.
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

// Settled reports whether an effect in this state has ended and will not change.
func (s State) Settled() bool {
	return s == Done || s == Superseded || s == Skipped || s == Duplicate
}

// Waiting reports whether an effect in this state continues without a person: at
// once, or as soon as the effects before it let it.
func (s State) Waiting() bool { return s == Pending || s == Retry || s == Held }

// Effect is one effect of a stream.
type Effect struct {
	Number Number
	State  State

	// Filtered is true if the route does not take the event's type. The effect does
	// nothing, but its number counts as present.
	Filtered bool

	// Aside is true if the effect was set aside as a tie. It has no place in the
	// order.
	Aside bool

	// Twin is true if another effect has the same number. It is read only for an
	// effect whose number is not above Applied.
	Twin bool

	// Waived is true if a person has decided that the effect takes part in the order
	// although another effect has the same number.
	Waived bool
}

// Stream is the state of one sequence key of one route.
type Stream struct {
	// Applied is the highest number that the order has reached; the zero Number if it
	// has not begun. In mode contiguous, every number up to it is settled or was
	// abandoned. In mode latest, it is the highest number that was, or may have been,
	// applied.
	Applied Number

	// StartedAt is the time at which the first effect of the key was seen.
	StartedAt time.Time

	// GapSince is the time at which the number after Applied was first found missing;
	// zero if it is not missing. Warned is true once that has been reported.
	GapSince time.Time
	Warned   bool

	// Busy is true if an effect that is not in Effects is claimed.
	Busy bool

	// Effects are sorted by number and, among equal numbers, by receipt.
	//
	// In mode contiguous they are the first effects above Applied in any state, the
	// first waiting effect above it, and the waiting effects at or below it. In mode
	// latest they are the newest effects that wait or are claimed, and those that
	// have just ended. In mode arrival they are the first effects that wait or are
	// claimed, and the first indeterminate one.
	Effects []Effect

	// Cut is true if there are effects above Applied that are not in Effects. Effects
	// then contains every effect above Applied whose number is below Shown.
	Cut   bool
	Shown Number
}

// Action is the decision about an effect.
type Action string

// The actions.
const (
	// Keep leaves an effect unchanged: claimed, at rest or settled.
	Keep Action = "keep"
	// Run lets the effect be claimed now.
	Run Action = "apply"
	// Wait makes the effect held.
	Wait Action = "hold"
	// Pass makes the effect superseded.
	Pass Action = "supersede"
	// Skip makes the effect skipped. Its number counts as present.
	Skip Action = "skip"
	// Fail makes the effect dead.
	Fail Action = "dead"
)

// Cause is the reason for a decision that does not follow from the order alone.
type Cause string

// The causes.
const (
	// CauseLate says that the order had passed the number before the effect arrived.
	CauseLate Cause = "late"
	// CauseTie says that another effect has the same number.
	CauseTie Cause = "tie"
	// CauseGap says that the number before it is missing.
	CauseGap Cause = "gap"
	// CauseFilter says that the route does not take the event's type.
	CauseFilter Cause = "filter"
	// CauseNumber says that the number has a fraction, and so no successor.
	CauseNumber Cause = "number"
)

// Decision is the decision about one effect.
type Decision struct {
	Action Action
	Cause  Cause
}

// Gap is a range of numbers that were abandoned, both ends included.
type Gap struct{ First, Last Number }

// Plan is the decision about a stream.
type Plan struct {
	// Decisions has one entry for each of Stream.Effects, at the same index. At most
	// one is Run, unless the route is unordered.
	Decisions []Decision

	Applied  Number
	GapSince time.Time
	Warned   bool

	// Warn is true if the gap has to be reported now.
	Warn bool

	// Abandoned are the gaps that this plan abandons.
	Abandoned []Gap

	// Blocked is the index of the effect that stops the key, and Wake the index of the
	// held effect to look at again at WakeAt. -1 is none.
	Blocked, Wake int
	WakeAt        time.Time

	// Below supersedes every waiting effect with a smaller number, including those
	// that are not in Effects. The zero Number supersedes none.
	Below Number

	// More is true if Effects did not reach far enough. Apply the plan, then call
	// [Decide] with the stream in its new state.
	More bool
}

// Decide decides which effects of a stream may run at the time now. Call it whenever an
// effect of the stream is about to be claimed or has ended. The caller must have locked
// the stream, and must have read it under that lock.
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
	aside  []bool // effects that have no place in the order, by index
	busy   bool   // an effect is claimed, or was chosen to be claimed
}

// waits reports whether effect i waits and has no other decision yet.
func (d *decider) waits(i int) bool { return d.plan.Decisions[i].Action == Wait }

func (d *decider) set(i int, action Action, cause Cause) {
	d.plan.Decisions[i] = Decision{Action: action, Cause: cause}
}

// run lets effect i be claimed, unless another effect is claimed or was chosen first.
func (d *decider) run(i int, cause Cause) {
	action := Run
	if d.busy {
		action = Wait
	}
	d.set(i, action, cause)
	d.busy = true
}

// tie decides about effect i, which comes after another effect with the same number. It
// reports false if effect i takes part in the order nevertheless.
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

// passable reports whether the effects after e may run.
func (d *decider) passable(e *Effect) bool {
	return e.State.Settled() || (e.State == DeadLetter || e.State == Indeterminate) && d.policy.OnDead == DeadSkip
}
