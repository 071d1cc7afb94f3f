// Package sequence decides the order of effects: which effect of a sequence key may run,
// which one waits, and which one is superseded. Call [Decide]. The package is pure: it
// uses no storage and no clock.
package sequence

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Mode is how a route orders the effects of one sequence key. The values appear in
// configuration files, so they never change.
type Mode string

// The modes.
const (
	// None runs effects in no particular order.
	None Mode = "none"
	// Latest runs an effect only if its number is higher than every number applied
	// before.
	Latest Mode = "latest"
	// Contiguous runs number n+1 only once number n is settled.
	Contiguous Mode = "contiguous"
	// Arrival runs one effect at a time, in the order of receipt.
	Arrival Mode = "arrival"
)

// Choice is what to do with an effect that has no key, no number, or the same number as
// another effect.
type Choice string

// The choices.
const (
	Apply Choice = "apply"
	Hold  Choice = "hold"
	Dead  Choice = "dead"
)

// OnGap is what to do when the patience for a missing number has run out.
type OnGap string

// The values of [OnGap].
const (
	// GapHold waits until a person decides.
	GapHold OnGap = "hold"
	// GapSkip abandons the missing numbers.
	GapSkip OnGap = "skip"
	// GapFail makes the first waiting effect dead.
	GapFail OnGap = "fail"
)

// Late is what to do with an effect that arrives after its number was abandoned or
// passed.
type Late string

// The values of [Late].
const (
	LateDrop  Late = "drop"
	LateApply Late = "apply"
	LateDead  Late = "dead"
)

// OnDead is what a dead effect does to the effects after it. In modes contiguous and
// arrival an indeterminate effect does the same.
type OnDead string

// The values of [OnDead].
const (
	DeadBlock OnDead = "block"
	DeadSkip  OnDead = "skip"
)

// Policy is a route's order. The zero Policy is unordered.
type Policy struct {
	Mode Mode

	// Patience is how long to wait for a missing number; it defaults to 1 h. Warn is
	// how long to wait before the gap is reported; it defaults to a tenth of Patience.
	// Both apply to mode contiguous.
	Patience, Warn time.Duration

	// OnGap defaults to hold, Late to drop, OnDead to block.
	OnGap  OnGap
	Late   Late
	OnDead OnDead

	// NoKey and NoNumber apply to events without a sequence key or number; they default
	// to dead. Ties applies to an effect with the same number as another one; it
	// defaults to apply in mode latest and to dead in the others.
	NoKey, NoNumber, Ties Choice

	// Start is the first number of every key, as a decimal. If it is empty, a key
	// starts with the smallest number that arrives within Settle of its first effect.
	// Settle defaults to 10 s. Both apply to mode contiguous.
	Start  string
	Settle time.Duration
}

// Ordered reports whether effects wait for each other.
func (p Policy) Ordered() bool { return p.Mode != "" && p.Mode != None }

// The defaults of [Policy].
const (
	DefaultPatience = time.Hour
	DefaultSettle   = 10 * time.Second
)

// WithDefaults returns the policy with its defaults filled in.
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

// Validate returns an error that lists everything that is wrong with the policy.
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
