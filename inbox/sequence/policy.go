// Package sequence is the arithmetic of order: which effect of a sequence key may
// begin, which waits, and which is passed over. It is pure: it knows no storage
// and no clock.
package sequence

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Mode is how a route orders the effects of one sequence key. Stored nowhere,
// but written in the configuration: never change.
type Mode string

// The modes.
const (
	// None: effects run as they come.
	None Mode = "none"
	// Latest: only what is newer than what was applied is applied.
	Latest Mode = "latest"
	// Contiguous: n+1 waits until n is settled.
	Contiguous Mode = "contiguous"
	// Arrival: one at a time, in the order of receipt.
	Arrival Mode = "arrival"
)

// Choice is what becomes of an effect that has no key, no number, or the number
// of another one.
type Choice string

// The choices.
const (
	Apply Choice = "apply"
	Hold  Choice = "hold"
	Dead  Choice = "dead"
)

// OnGap is what ends the wait for a missing number.
type OnGap string

// What follows patience.
const (
	// GapHold: nothing; a person decides.
	GapHold OnGap = "hold"
	// GapSkip: the missing numbers are given up.
	GapSkip OnGap = "skip"
	// GapFail: the first one that waits becomes dead.
	GapFail OnGap = "fail"
)

// Late is what becomes of an effect whose number was given up or passed.
type Late string

// The policies for late ones.
const (
	LateDrop  Late = "drop"
	LateApply Late = "apply"
	LateDead  Late = "dead"
)

// OnDead is what a dead (or, where order is strict, indeterminate) effect does
// to those behind it.
type OnDead string

// What those behind a dead one do.
const (
	DeadBlock OnDead = "block"
	DeadSkip  OnDead = "skip"
)

// Policy is a route's order. The zero Policy is unordered.
type Policy struct {
	Mode Mode

	// Patience is how long a missing number is waited for, Warn after how long the
	// wait is reported. Patience defaults to 1 h; Warn to a tenth of it. Both are for
	// mode contiguous.
	Patience, Warn time.Duration

	// OnGap defaults to hold, Late to drop, OnDead to block.
	OnGap  OnGap
	Late   Late
	OnDead OnDead

	// NoKey and NoNumber are for events without one, Ties for a number that another
	// effect of the key has. NoKey and NoNumber default to dead; Ties to apply in
	// mode latest and to dead elsewhere.
	NoKey, NoNumber, Ties Choice

	// Start is the first number of every key, as a decimal; empty learns it: the
	// smallest one that arrived within Settle of the first begins. Settle defaults
	// to 10 s. Both are for mode contiguous.
	Start  string
	Settle time.Duration
}

// Ordered reports whether effects wait for each other at all.
func (p Policy) Ordered() bool { return p.Mode != "" && p.Mode != None }

// The defaults of [Policy].
const (
	DefaultPatience = time.Hour
	DefaultSettle   = 10 * time.Second
)

// WithDefaults gives the policy with its defaults filled in.
func (p Policy) WithDefaults() Policy {
	if !p.Ordered() {
		return p
	}
	p.Patience = cmp.Or(p.Patience, DefaultPatience)
	p.Warn = cmp.Or(p.Warn, p.Patience/10)
	p.OnGap = cmp.Or(p.OnGap, GapHold)
	p.Late = cmp.Or(p.Late, LateDrop)
	p.OnDead = cmp.Or(p.OnDead, DeadBlock)
	p.NoKey = cmp.Or(p.NoKey, Dead)
	p.NoNumber = cmp.Or(p.NoNumber, Dead)
	ties := Dead
	if p.Mode == Latest {
		ties = Apply
	}
	p.Ties = cmp.Or(p.Ties, ties)
	p.Settle = cmp.Or(p.Settle, DefaultSettle)
	return p
}

// Validate reports everything that is wrong with the policy.
func (p Policy) Validate() error {
	var errs []error
	check := func(what, value string, allowed ...string) {
		if value != "" && !slices.Contains(allowed, value) {
			errs = append(errs, fmt.Errorf("order %s is %q, not one of %q", what, value, allowed))
		}
	}
	check("mode", string(p.Mode), string(None), string(Latest), string(Contiguous), string(Arrival))
	check("on_gap", string(p.OnGap), string(GapHold), string(GapSkip), string(GapFail))
	check("late", string(p.Late), string(LateDrop), string(LateApply), string(LateDead))
	check("on_dead", string(p.OnDead), string(DeadBlock), string(DeadSkip))
	for what, choice := range map[string]Choice{"no_key": p.NoKey, "no_number": p.NoNumber, "ties": p.Ties} {
		check(what, string(choice), string(Apply), string(Hold), string(Dead))
	}
	if p.Patience < 0 || p.Warn < 0 || p.Settle < 0 {
		errs = append(errs, errors.New("order patience, warn and settle must not be negative"))
	}
	if p.Start != "" {
		if n, err := ParseNumber(p.Start); err != nil {
			errs = append(errs, fmt.Errorf("order start: %w", err))
		} else if !n.Whole() {
			errs = append(errs, fmt.Errorf("order start %s is not a whole number", n))
		}
	}
	return errors.Join(errs...)
}
