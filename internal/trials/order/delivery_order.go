package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
)

// delivery is one request for an event. An event may have two.
type delivery struct {
	key    string
	number int
}

// id is the id of the event.
func (d delivery) id() string { return "evt_" + d.key + "_" + strconv.Itoa(d.number) }

// deliveryOrder returns all deliveries in the order in which the senders take them. Every event is at most window
// places away from its own in its sequence, and some are delivered twice.
func (c *campaign) deliveryOrder(random *rand.Rand) []delivery {
	if c.variant.mixed {
		return c.deliveryOrderMixed()
	}
	queues := make([][]delivery, 0, c.keys)
	for k := range c.sequences() {
		queues = append(queues, c.deliverySequence(random, "k"+strconv.Itoa(k)))
	}
	var out []delivery
	for len(queues) > 0 {
		among := len(queues)
		if c.variant.slow {
			among = min(among, 50) // so that no number is missing for long
		}
		i := random.IntN(among)
		out = append(out, queues[i][0])
		if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
			queues = slices.Delete(queues, i, i+1)
		}
	}
	return out
}

// sequences is the number of keys, and eventsPerSequence how many numbers each has.
func (c *campaign) sequences() int {
	switch {
	case c.variant.hot:
		return 1
	case c.variant.unlocked: // with few keys their effects meet
		return max(c.keys/100, min(c.keys, 8))
	case c.variant.latest:
		return 1
	case c.variant.mixed:
		return 8
	case c.variant.plant != "":
		return min(c.keys, 8)
	}
	return c.keys
}

func (c *campaign) eventsPerSequence() int {
	switch {
	case c.variant.hot:
		return c.keys * c.events / 10
	case c.variant.unlocked:
		return 5 * c.events
	case c.variant.latest:
		return c.unorderedEvents() / 8
	case c.variant.mixed:
		return 10
	case c.variant.plant != "":
		return min(c.events, 30)
	}
	return c.events
}

func (c *campaign) deliverySequence(random *rand.Rand, key string) []delivery {
	type placed struct {
		delivery
		at float64
	}
	var all []placed
	for n := 1; n <= c.eventsPerSequence(); n++ {
		at := float64(n) + random.Float64()*float64(c.window)
		all = append(all, placed{delivery{key, n}, at})
		if random.IntN(100) < c.duplicates {
			all = append(all, placed{delivery{key, n}, at + random.Float64()*float64(2*c.window)})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	out := make([]delivery, len(all))
	for i, p := range all {
		out[i] = p.delivery
	}
	return out
}

// takes reports whether the route's type takes a number.
func (v *variant) takes(number int) bool { return number%v.takesEvery == 0 }
