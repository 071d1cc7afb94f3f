package sequence

import (
	"slices"
	"time"
)

// contiguous runs number n+1 once number n is settled.
func (d *decider) contiguous() {
	d.wholeOnly()
	if d.plan.Applied.IsZero() && !d.begin() {
		return
	}
	d.late()
	for d.step() {
	}
}

// wholeOnly sets aside effects whose number has a fraction, and so no successor. They
// were recorded while the route had another mode.
func (d *decider) wholeOnly() {
	d.plan.Applied.fraction = ""
	for i := range d.stream.Effects {
		if e := &d.stream.Effects[i]; !e.Number.Whole() {
			if d.waits(i) {
				d.set(i, Fail, CauseNumber)
			}
			d.aside[i] = true
		}
	}
}

// begin sets Applied to the number before the first one. It reports false while the
// first number is not known yet.
func (d *decider) begin() bool {
	if start, err := ParseNumber(d.policy.Start); err == nil && start.Whole() {
		d.plan.Applied = start.Previous()
		return true
	}
	settled := d.stream.StartedAt.Add(d.policy.Settle)
	if d.now.Before(settled) {
		for i := range d.stream.Effects {
			if d.waits(i) {
				d.plan.Wake, d.plan.WakeAt = i, settled
				break
			}
		}
		return false
	}
	for i := range d.stream.Effects {
		if !d.aside[i] {
			d.plan.Applied = d.stream.Effects[i].Number.Previous()
			return true
		}
	}
	return false
}

// late decides about the waiting effects whose number the order has passed.
func (d *decider) late() {
	for i := range d.stream.Effects {
		e := &d.stream.Effects[i]
		if !d.waits(i) || e.Number.Compare(d.plan.Applied) > 0 {
			continue
		}
		if e.Twin {
			if !d.tie(i) {
				d.run(i, CauseTie)
			}
			continue
		}
		switch d.policy.Late {
		case LateApply:
			d.run(i, CauseLate)
		case LateDead:
			d.set(i, Fail, CauseLate)
		case LateDrop:
			d.set(i, Pass, CauseLate)
		}
	}
}

// step decides about the number after Applied. It reports whether Applied advanced.
func (d *decider) step() bool {
	next := d.plan.Applied.Next()
	if d.stream.Cut && next.Compare(d.stream.Shown) >= 0 && d.plan.Applied.Compare(d.stream.Applied) != 0 {
		d.endGap()
		d.plan.More = true
		return false
	}
	at, beyond := -1, -1
	for i := range d.stream.Effects {
		e := &d.stream.Effects[i]
		if d.aside[i] {
			continue
		}
		if c := e.Number.Compare(next); c == 0 && at < 0 {
			at = i
		} else if c > 0 {
			beyond = i
			break
		}
	}
	switch {
	case at >= 0:
		return d.number(at, next)
	case beyond >= 0:
		return d.missing(beyond, next)
	}
	d.endGap()
	return false
}

// number decides about the effects with the number next; the first of them has index
// at.
func (d *decider) number(at int, next Number) bool {
	leader := d.leader(at, next)
	for i := at; i < len(d.stream.Effects) && d.stream.Effects[i].Number.Compare(next) == 0; i++ {
		if i != leader && d.waits(i) {
			d.tie(i)
		}
	}
	for i := at; i < len(d.stream.Effects) && d.stream.Effects[i].Number.Compare(next) == 0; i++ {
		e := &d.stream.Effects[i]
		switch {
		case d.aside[i] || d.plan.Decisions[i].Action == Skip || d.plan.Decisions[i].Cause == CauseTie:
		case d.waits(i):
			d.run(i, "")
			d.endGap()
			return false
		case d.plan.Decisions[i].Action == Fail && d.policy.OnDead == DeadSkip:
		case !d.passable(e):
			d.endGap()
			if e.State != Claimed {
				d.plan.Blocked = i
			}
			return false
		}
	}
	d.plan.Applied = next
	d.endGap()
	return true
}

// leader returns which of the effects with the number next takes its place in the
// order: the first that no longer waits, else the first that was attempted, else the
// first.
func (d *decider) leader(at int, next Number) int {
	first, tried := -1, -1
	for i := at; i < len(d.stream.Effects) && d.stream.Effects[i].Number.Compare(next) == 0; i++ {
		e := &d.stream.Effects[i]
		if d.aside[i] {
			continue
		}
		if !e.State.Waiting() {
			return i
		}
		if first < 0 {
			first = i
		}
		if tried < 0 && e.State == Retry {
			tried = i
		}
	}
	if tried >= 0 {
		return tried
	}
	return first
}

// missing decides about the number next, which no effect has; beyond is the index of
// the first effect above it.
func (d *decider) missing(beyond int, next Number) bool {
	waiting := -1
	for i := beyond; i < len(d.stream.Effects) && waiting < 0; i++ {
		e := &d.stream.Effects[i]
		switch {
		case d.waits(i):
			waiting = i
		case !d.aside[i] && (e.State == DeadLetter || e.State == Indeterminate) && !d.passable(e):
			// It failed because of the gap, and the later effects wait for it.
			d.plan.Blocked = i
			return false
		}
	}
	if waiting < 0 {
		d.endGap() // no effect waits for the number, unless one that is not in Effects does
		d.plan.More = d.stream.Cut && d.changed()
		return false
	}
	if d.plan.GapSince.IsZero() {
		d.plan.GapSince = d.now
	}
	if d.now.Before(d.plan.GapSince.Add(d.policy.Patience)) || d.policy.OnGap == GapHold {
		d.patience(waiting)
		return false
	}
	if d.policy.OnGap == GapFail {
		d.set(waiting, Fail, CauseGap)
		if d.policy.OnDead == DeadBlock {
			d.plan.Blocked = waiting
			return false
		}
	}
	d.abandon(next, d.stream.Effects[beyond].Number.Previous())
	return true
}

// patience sets the time at which to check the first effect that waits after a gap
// again.
func (d *decider) patience(waiting int) {
	since := d.plan.GapSince
	if !d.plan.Warned && !d.now.Before(since.Add(d.policy.Warn)) {
		d.plan.Warn, d.plan.Warned = true, true
	}
	at := since.Add(d.policy.Patience)
	if warn := since.Add(d.policy.Warn); !d.plan.Warned && (warn.Before(at) || d.policy.OnGap == GapHold) {
		at = warn
	} else if d.policy.OnGap == GapHold {
		return // a person decides
	}
	d.plan.Wake, d.plan.WakeAt = waiting, at
}

// abandon abandons the numbers from first to last.
func (d *decider) abandon(first, last Number) {
	d.plan.Abandoned = append(d.plan.Abandoned, Gap{First: first, Last: last})
	d.plan.Applied = last
	d.endGap()
}

func (d *decider) endGap() { d.plan.GapSince, d.plan.Warned = time.Time{}, false }

// changed reports whether the stream will look different after the plan.
func (d *decider) changed() bool {
	return d.plan.Applied.Compare(d.stream.Applied) != 0 || slices.ContainsFunc(d.plan.Decisions, func(c Decision) bool {
		return c.Action != Keep && c.Cause != ""
	})
}
