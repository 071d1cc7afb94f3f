package jobs

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Target bounds what this process asks of a target at once.
type Target struct {
	// Concurrency is how many attempts may be under way at the target. 0 is no limit.
	Concurrency int

	// Greedy lets the target occupy all workers. By default at most three times the number of idle
	// workers are at one target, so a target that hangs occupies at most three quarters of the
	// workers, and one is always left for another target.
	Greedy bool

	// Rate is how many attempts may begin in Per. 0 is no limit.
	Rate int

	// Per is the period of Rate. It defaults to a second.
	Per time.Duration

	// Failures is how many attempts must fail in a row before no more are made for a while. 0 is
	// the default of 10, -1 is off. Only failures of the target itself count: no connection, no
	// answer, a 5xx.
	Failures int

	// Open is how long no attempts are made then. After that, one attempt at a time tests the
	// target. 0 is the default of 30 s.
	Open time.Duration
}

// The defaults of [Target].
const (
	DefaultFailures = 10
	DefaultOpen     = 30 * time.Second
)

// The shortest time by which a target's limits put an effect off, and the longest: longestParked, or up to mostParked while a
// backlog is long.
const (
	leastParked   = 20 * time.Millisecond
	longestParked = 30 * time.Second
	mostParked    = 10 * time.Minute
)

// maxPause bounds how long one Retry-After pauses all effects of a target.
const maxPause = 5 * time.Minute

// limiter decides whether an attempt of the crew at a target may begin.
type limiter struct {
	*targetState
	crew *crew
}

// after returns the limiter of another crew at the same target.
func (l *limiter) after(crew *crew) *limiter { return &limiter{targetState: l.targetState, crew: crew} }

// targetState is what a process knows about a target, and how much it asks of the target now. Effects that it puts off form
// a queue that exists only as a time: each one must return a little later than the one before, at the
// pace the target has shown. A backlog therefore neither returns all at once nor waits longer than
// necessary.
//
// The pace may be wrong, or change, so the queue is no longer than a horizon. Then it begins again, and the effects of several such
// rounds return at the same time. That keeps the target busy if it is faster than it was, but putting an effect off costs the
// database as much as a short attempt. So the horizon grows until about four times as many effects return as the target takes.
type targetState struct {
	now    func() time.Time
	random func() float64

	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	greedy  bool          // takes workers even if other targets need them
	slots   int           // 0 is no limit
	every   time.Duration // between two attempts; 0 is no limit
	burst   time.Duration
	open    time.Duration

	mu     sync.Mutex
	busy   int
	took   time.Duration // by an attempt, on average
	due    time.Time     // of the next attempt that the rate allows
	parked time.Time     // until when the effects that were put off wait
	ahead  time.Duration // the horizon: how long they may wait
	since  time.Time     // when ahead was judged last
	rounds int           // how often the queue has begun again since then
	opened time.Time     // when the breaker opened last
	paused time.Time     // until when the target's Retry-After asks for a pause
}

// crew are the workers of one [Client], which all targets share.
type crew struct {
	size int64
	busy atomic.Int64
}

// hire takes a worker for a target that has busy of them, unless too few would be left for the
// others.
func (c *crew) hire(busy int, greedy bool) bool {
	all := c.busy.Add(1) - 1
	if !greedy && int64(busy) >= 3*(c.size-all) {
		c.busy.Add(-1)
		return false
	}
	return true
}

func newLimiter(t Target, crew *crew, now func() time.Time, random func() float64) *limiter {
	l := &targetState{greedy: t.Greedy, now: now, random: random, slots: t.Concurrency, open: t.Open, took: 50 * time.Millisecond}
	if t.Rate > 0 {
		per := t.Per
		if per <= 0 {
			per = time.Second
		}
		l.every = per / time.Duration(t.Rate)
		l.burst = min(per/10, time.Second)
	}
	if l.open <= 0 {
		l.open = DefaultOpen
	}
	failures := t.Failures
	if failures == 0 {
		failures = DefaultFailures
	}
	if failures > 0 {
		l.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Timeout:     l.open,
			IsExcluded:  func(err error) bool { return errors.Is(err, errNoAttempt) },
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= uint32(failures) },
			OnStateChange: func(_ string, _, to gobreaker.State) {
				if to == gobreaker.StateOpen {
					l.mu.Lock()
					l.opened = l.now()
					l.mu.Unlock()
				}
			},
		})
	}
	return &limiter{targetState: l, crew: crew}
}

// enter takes a slot at the target. The caller must pass the result of the attempt to done. If
// there is no slot, done is nil and wait says when to ask again. A brief attempt need not leave
// workers to other targets.
func (l *limiter) enter(brief bool) (done func(effect.Result), wait time.Duration, reason reasons.Reason) {
	now := l.now()
	if wait, reason := l.take(now, brief); reason != "" {
		return nil, wait, reason
	}
	report := func(error) {}
	if l.breaker != nil {
		allowed, err := l.breaker.Allow()
		if err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.busy--
			l.crew.busy.Add(-1)
			// The wait is spread over as long again, so that not all effects return at once.
			return nil, l.jittered(max(l.opened.Add(l.open).Sub(now), 0) + time.Duration(l.random()*float64(l.open))), reasons.Breaker
		}
		report = allowed
	}
	return func(r effect.Result) {
		l.leave(now, r)
		report(troubles(r)) // without the lock: the breaker may call back
	}, 0, ""
}

func (l *limiter) take(now time.Time, brief bool) (time.Duration, reasons.Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case now.Before(l.paused):
		return l.park(now, l.paused.Sub(now), l.pace()), reasons.Rate
	case l.every > 0 && l.due.Sub(now) > l.burst:
		return l.park(now, l.due.Sub(now)-l.burst, l.every), reasons.Rate
	case l.slots > 0 && l.busy >= l.slots, !l.crew.hire(l.busy, l.greedy || brief):
		return l.park(now, 0, l.pace()), reasons.Saturated
	}
	if l.every > 0 {
		if l.due.Before(now) {
			l.due = now
		}
		l.due = l.due.Add(l.every)
	}
	l.busy++
	return 0, ""
}

// crowded reports whether an attempt that was not brief after all must leave its worker to other
// targets. wait says when to ask again.
func (l *limiter) crowded() (wait time.Duration, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.greedy || int64(l.busy) <= 3*(l.crew.size-l.crew.busy.Load()+1) {
		return 0, false
	}
	return l.park(l.now(), 0, l.pace()), true
}

// later returns how long to put off an effect that waited for its turn in vain. It queues after all
// effects that were put off before it.
func (l *limiter) later() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.park(l.now(), 0, l.pace())
}

// pace is the time between two attempts, as the target has shown it.
func (l *limiter) pace() time.Duration {
	return max(l.took/time.Duration(max(l.slots, l.busy, 1)), l.every)
}

// park returns the wait for a new place at the end of the queue, which is at least least.
func (l *limiter) park(now time.Time, least, pace time.Duration) time.Duration {
	if floor := now.Add(least); l.parked.Before(floor) {
		l.parked, l.ahead, l.since, l.rounds = floor, longestParked, now, 0
	}
	if l.parked = l.parked.Add(pace); l.parked.Sub(now) <= l.ahead+least {
		return l.jittered(l.parked.Sub(now))
	}
	wait := l.jittered(l.ahead + least)
	l.parked = now.Add(least + pace)
	if l.rounds++; now.Sub(l.since) >= l.ahead {
		switch {
		case l.rounds > 3:
			l.ahead = min(l.ahead*time.Duration(min(l.rounds, 12))/3, mostParked)
		case l.rounds < 2:
			l.ahead = max(l.ahead/2, longestParked)
		}
		l.since, l.rounds = now, 0
	}
	return wait
}

func (l *limiter) jittered(d time.Duration) time.Duration {
	return max(d+time.Duration((l.random()-0.5)*float64(min(d, longestParked))/5), leastParked)
}

func (l *limiter) leave(began time.Time, r effect.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.busy--
	l.crew.busy.Add(-1)
	l.took += (now.Sub(began) - l.took) / 8
	if r.RetryAfter > 0 {
		if until := now.Add(min(r.RetryAfter, maxPause)); until.After(l.paused) {
			l.paused = until
		}
	}
}

var (
	errTrouble   = errors.New("the target is in trouble")
	errNoAttempt = errors.New("no attempt was made")
)

// troubles returns the error that the breaker counts for an attempt. An answer that refuses only
// this event says nothing about the target.
func troubles(r effect.Result) error {
	switch r.Outcome {
	case "":
		return errNoAttempt
	case effect.Done, effect.Dead:
		return nil
	case effect.Retry, effect.Unknown:
	}
	switch r.Reason {
	case reasons.DNS, reasons.Connect, reasons.TLS, reasons.Timeout, reasons.Connection, reasons.Reply,
		reasons.Address, reasons.Status503, reasons.Status5xx, reasons.Mail4xx, reasons.SQLTimeout,
		reasons.Unavailable, reasons.BrokerRefused:
		return errTrouble
	}
	return nil
}
