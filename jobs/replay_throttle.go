package jobs

import (
	"sync"
	"time"
)

// Deliveries tells how many deliveries the gate of this process has answered so far, and
// how long they have waited for their commits in all.
type Deliveries func() (answered uint64, waited time.Duration)

// How a replay gives way to deliveries. It rests now and then to learn how long a
// delivery waits while nothing is in its way; in between it goes as fast as leaves that
// as it was, or nearly so.
const (
	// drained is how long the effects of the last step may still be under way.
	drained = 150 * time.Millisecond

	// listened and listenedMost are how long it rests beyond that: until it has heard
	// of enough deliveries.
	listened     = 200 * time.Millisecond
	listenedMost = time.Second

	// enough deliveries have a mean that says something.
	enough = 5

	// goes is how long it goes on between two rests, looked is how often it looks back
	// meanwhile.
	goes   = 4 * time.Second
	looked = 250 * time.Millisecond

	// A delivery may wait for so much longer than in a rest, and by slightly anyway:
	// that nobody notices.
	tolerated = 1.2
	slightly  = 300 * time.Microsecond

	// The items a second with which it begins beside deliveries, and those below which
	// it never falls, or it would not come to an end.
	firstRate, leastRate = 200, 100

	// faster and slower are what the rate changes by from one look to the next.
	faster, slower = 1.25, .8

	// forgotten is after how long without a step what was learnt is not believed.
	forgotten = 10 * time.Second
)

// giveWay decides how fast the replays of a process may go. All of them share it.
type giveWay struct {
	read Deliveries
	now  func() time.Time

	mu    sync.Mutex
	phase phase
	since time.Time // of the phase
	last  time.Time // asked
	mark  mark      // the begin of what is looked at
	begun mark      // of going

	calm  time.Duration // a delivery's wait in the last rest; 0: nobody delivered
	rate  float64       // 0 is any
	items int           // since mark
}

type phase int

const (
	draining phase = iota
	listening
	going
)

// mark is what had been answered at a time.
type mark struct {
	at       time.Time
	answered uint64
	waited   time.Duration
}

func (g *giveWay) here(now time.Time) mark {
	answered, waited := g.read()
	return mark{now, answered, waited}
}

// until gives how many deliveries were answered since m, and their mean wait.
func (m mark) until(end mark) (n uint64, mean time.Duration) {
	if n = end.answered - m.answered; n > 0 {
		mean = (end.waited - m.waited) / time.Duration(n)
	}
	return n, mean
}

// next says how long to rest now or, if that is 0, how many items a second the next
// step may take, where 0 is any.
func (g *giveWay) next() (rest time.Duration, atMost float32) {
	if g.read == nil {
		return 0, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if now.Sub(g.last) > forgotten {
		g.calm, g.rate = 0, 0
		g.enter(listening, now)
	}
	g.last = now
	if g.phase == going {
		g.look(now)
	}
	if g.phase == draining {
		if left := drained - now.Sub(g.since); left > 0 {
			return left, 0
		}
		g.enter(listening, now)
	}
	if g.phase == listening {
		if left := g.listen(now); left > 0 {
			return left, 0
		}
		g.enter(going, now)
		g.begun = g.mark
	}
	return 0, float32(g.rate)
}

// took counts the items of a step.
func (g *giveWay) took(items int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.items += items
}

func (g *giveWay) enter(p phase, now time.Time) {
	g.phase, g.since, g.mark, g.items = p, now, g.here(now), 0
}

// listen learns how long a delivery waits in a rest; left is how much longer that takes.
func (g *giveWay) listen(now time.Time) (left time.Duration) {
	n, mean := g.mark.until(g.here(now))
	switch passed := now.Sub(g.since); {
	case passed < listened:
		return listened - passed
	case n < enough && passed < listenedMost:
		return min(listened, listenedMost-passed)
	}
	g.calm = mean
	switch {
	case n < enough:
		g.calm, g.rate = 0, 0
	case g.rate == 0:
		g.rate = firstRate
	}
	return 0
}

// look compares with the last rest how long deliveries wait beside the replay, and goes
// into the next one when it is time.
func (g *giveWay) look(now time.Time) {
	passed := now.Sub(g.mark.at)
	if passed < looked {
		return
	}
	here := g.here(now)
	if n, mean := g.mark.until(here); n >= enough || passed >= listenedMost {
		switch {
		case n < enough:
		case g.calm == 0:
			g.enter(draining, now) // somebody delivers who did not
			return
		case mean > max(time.Duration(tolerated*float64(g.calm)), g.calm+slightly):
			g.rate = max(slower*min(g.rate, g.attained(passed)), leastRate)
		default:
			// Not beyond what it attains: a replay has a rate of its own, too.
			g.rate = max(min(faster*g.rate, 2*g.attained(passed)), leastRate)
		}
		g.mark, g.items = here, 0
	}
	if now.Sub(g.since) < goes {
		return
	}
	if n, _ := g.begun.until(here); n >= enough {
		g.enter(draining, now)
	} else {
		g.calm, g.rate = 0, 0
		g.enter(going, now)
		g.begun = g.mark
	}
}

func (g *giveWay) attained(passed time.Duration) float64 { return float64(g.items) / passed.Seconds() }
