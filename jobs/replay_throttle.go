package jobs

import (
	"sync"
	"time"
)

// Deliveries returns how many deliveries the gate of this process has answered so far, and
// the total time for which they waited for their commits.
type Deliveries func() (answered uint64, waited time.Duration)

// A replay slows down for live deliveries. It pauses from time to time to measure how long
// a delivery waits without a replay. Between pauses it runs as fast as it can while
// deliveries wait hardly longer than that.
const (
	// drainFor is how long the effects of the last step are given to finish.
	drainFor = 150 * time.Millisecond

	// listenFor is how long a pause lasts beyond that, and maxListenFor how long it may
	// last until minSample deliveries were answered.
	listenFor    = 200 * time.Millisecond
	maxListenFor = time.Second

	// minSample is the least number of deliveries whose mean wait is used.
	minSample = 5

	// runFor is how long the replay runs between two pauses, and lookEvery how often it
	// compares the waits during that time.
	runFor    = 4 * time.Second
	lookEvery = 250 * time.Millisecond

	// A delivery may wait for maxSlowdown times as long as in a pause. It may always wait
	// for minSlowdown longer, because senders do not notice that.
	maxSlowdown = 1.2
	minSlowdown = 300 * time.Microsecond

	// firstRate is the rate, in items a second, at which the replay begins while there are
	// deliveries. The rate never falls below minRate, so that every replay ends.
	firstRate, minRate = 200, 100

	// speedUp and slowDown are the factors by which the rate changes from one look to the
	// next.
	speedUp, slowDown = 1.25, .8

	// forgetAfter is the time without a step after which the measurements are discarded.
	forgetAfter = 10 * time.Second
)

// replayThrottle decides how fast the replays of a process may run. All of them share it.
type replayThrottle struct {
	read Deliveries
	now  func() time.Time

	mu      sync.Mutex
	phase   phase
	since   time.Time // of the phase
	asked   time.Time // when a step was last asked for
	mark    mark      // where the present sample begins
	running mark      // where the present run began

	calm  time.Duration // mean wait in the last pause; 0: fewer than minSample deliveries
	rate  float64       // 0 is any
	items int           // since mark
}

type phase int

const (
	draining phase = iota
	listening
	replaying
)

// mark is what the gate had answered at a time.
type mark struct {
	at       time.Time
	answered uint64
	waited   time.Duration
}

func (t *replayThrottle) here(now time.Time) mark {
	answered, waited := t.read()
	return mark{now, answered, waited}
}

// until returns how many deliveries were answered between m and end, and their mean wait.
func (m mark) until(end mark) (n uint64, mean time.Duration) {
	if n = end.answered - m.answered; n > 0 {
		mean = (end.waited - m.waited) / time.Duration(n)
	}
	return n, mean
}

// next returns how long to pause now or, if that is 0, how many items a second the next
// step may take; 0 is any number.
func (t *replayThrottle) next() (pause time.Duration, atMost float32) {
	if t.read == nil {
		return 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if now.Sub(t.asked) > forgetAfter {
		t.calm, t.rate = 0, 0
		t.enter(listening, now)
	}
	t.asked = now
	if t.phase == replaying {
		t.look(now)
	}
	if t.phase == draining {
		if left := drainFor - now.Sub(t.since); left > 0 {
			return left, 0
		}
		t.enter(listening, now)
	}
	if t.phase == listening {
		if left := t.listen(now); left > 0 {
			return left, 0
		}
		t.enter(replaying, now)
		t.running = t.mark
	}
	return 0, float32(t.rate)
}

// took counts the items of a step.
func (t *replayThrottle) took(items int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.items += items
}

func (t *replayThrottle) enter(p phase, now time.Time) {
	t.phase, t.since, t.mark, t.items = p, now, t.here(now), 0
}

// listen measures how long a delivery waits in a pause. left is how much longer that takes.
func (t *replayThrottle) listen(now time.Time) (left time.Duration) {
	n, mean := t.mark.until(t.here(now))
	switch passed := now.Sub(t.since); {
	case passed < listenFor:
		return listenFor - passed
	case n < minSample && passed < maxListenFor:
		return min(listenFor, maxListenFor-passed)
	}
	t.calm = mean
	switch {
	case n < minSample:
		t.calm, t.rate = 0, 0
	case t.rate == 0:
		t.rate = firstRate
	}
	return 0
}

// look compares how long deliveries wait during the replay with the last pause, and begins
// the next pause when it is due.
func (t *replayThrottle) look(now time.Time) {
	passed := now.Sub(t.mark.at)
	if passed < lookEvery {
		return
	}
	here := t.here(now)
	if n, mean := t.mark.until(here); n >= minSample || passed >= maxListenFor {
		switch {
		case n < minSample:
		case t.calm == 0:
			t.enter(draining, now) // too few deliveries came in the last pause to measure
			return
		case mean > max(time.Duration(maxSlowdown*float64(t.calm)), t.calm+minSlowdown):
			t.rate = max(slowDown*min(t.rate, t.attained(passed)), minRate)
		default:
			// The rate rises to at most twice the attained rate, because the replay's own rate
			// limits it too.
			t.rate = max(min(speedUp*t.rate, 2*t.attained(passed)), minRate)
		}
		t.mark, t.items = here, 0
	}
	if now.Sub(t.since) < runFor {
		return
	}
	if n, _ := t.running.until(here); n >= minSample {
		t.enter(draining, now)
	} else {
		t.calm, t.rate = 0, 0
		t.enter(replaying, now)
		t.running = t.mark
	}
}

func (t *replayThrottle) attained(passed time.Duration) float64 {
	return float64(t.items) / passed.Seconds()
}
