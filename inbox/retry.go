package inbox

import (
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox/reasons"
)

// RetryPolicy says how often and when an effect is attempted again. The zero
// value is the default policy.
type RetryPolicy struct {
	// Attempts is how many attempts are made in all. 0 is the default of 12.
	Attempts int

	// Base is the longest wait after the first attempt; it doubles with each. 0 is
	// the default of 5 s.
	Base time.Duration

	// Max is where the doubling stops. 0 is the default of 1 h.
	Max time.Duration

	// Deadline is how long after the event was received, or its effect was given new
	// attempts, any attempt may still begin, the first one included, regardless of why
	// the effect waited. 0 is the default of none.
	Deadline time.Duration
}

// The defaults of [RetryPolicy].
const (
	DefaultRetryAttempts = 12
	DefaultRetryBase     = 5 * time.Second
	DefaultRetryMax      = time.Hour
)

// maxRetryAfter bounds what a target may ask for, so that one answer cannot put
// an effect off for years.
const maxRetryAfter = 24 * time.Hour

// Validate reports everything that is wrong with the policy.
func (p RetryPolicy) Validate() error {
	var errs []error
	if p.Attempts < 0 {
		errs = append(errs, errors.New("retry attempts are negative"))
	}
	if p.Base < 0 || p.Max < 0 || p.Deadline < 0 {
		errs = append(errs, errors.New("retry base, max and deadline must not be negative"))
	}
	p = p.withDefaults()
	if p.Max < p.Base {
		errs = append(errs, errors.New("retry max is less than base"))
	}
	return errors.Join(errs...)
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.Attempts == 0 {
		p.Attempts = DefaultRetryAttempts
	}
	if p.Base == 0 {
		p.Base = DefaultRetryBase
	}
	if p.Max == 0 {
		p.Max = max(DefaultRetryMax, p.Base)
	}
	return p
}

// Over reports whether no attempt may begin any more, at an age of the event or since
// the effect was given new attempts.
func (p RetryPolicy) Over(age time.Duration) bool { return p.Deadline > 0 && age > p.Deadline }

// Within returns wait, or the time until the deadline is over if that is less.
func (p RetryPolicy) Within(age, wait time.Duration) time.Duration {
	if p.Deadline == 0 {
		return wait
	}
	return min(wait, max(p.Deadline-age, 0)+time.Millisecond)
}

// Failure is a failed attempt as the policy sees it.
type Failure struct {
	// Attempt is which one failed, from 1.
	Attempt int

	// RetryAfter is the least wait that the target asked for.
	RetryAfter time.Duration

	// Age is how long ago the event was received, or given new attempts.
	Age time.Duration
}

// Next decides what follows a failed attempt: another one after wait, or none, for the
// reason returned. The wait is drawn from the whole of an interval that doubles (full
// jitter: effects that failed together do not come back together); random returns
// numbers in [0, 1).
func (p RetryPolicy) Next(f Failure, random func() float64) (wait time.Duration, giveUp reasons.Reason) {
	p = p.withDefaults()
	if f.Attempt >= p.Attempts {
		return 0, reasons.Exhausted
	}
	ceiling := p.Max
	// 40 doublings of a nanosecond are 18 minutes, so a shift cannot overflow
	// before it is cut off.
	if shift := max(f.Attempt-1, 0); shift < 40 && p.Base<<shift>>shift == p.Base {
		ceiling = min(ceiling, p.Base<<shift)
	}
	wait = time.Duration(random() * float64(ceiling))
	wait = max(wait, min(f.RetryAfter, maxRetryAfter))
	if p.Deadline > 0 && f.Age+wait > p.Deadline {
		return 0, reasons.Deadline
	}
	return wait, ""
}
