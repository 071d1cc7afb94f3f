package inbox

import (
	"sync"
	"sync/atomic"
)

// OrderStats counts what order has done to the effects of one route since the process
// began. Reading it does not query the database.
type OrderStats struct {
	// Held counts effects that were held for another one or for a gap.
	Held uint64
	// Superseded are effects passed over for a newer one of their key.
	Superseded uint64
	// Filtered counts effects that only fill the place of their number, because the
	// route does not take their type.
	Filtered uint64
	// LongGaps are gaps that lasted longer than the policy's warning time.
	LongGaps uint64
	// AbandonedGaps are gaps that the policy ended.
	AbandonedGaps uint64
	// Late are effects whose number was passed before they came.
	Late uint64
	// Ties are effects whose number another one of their key has.
	Ties uint64
	// MissingKeys and MissingNumbers are effects admitted without one.
	MissingKeys, MissingNumbers uint64
	// HeldRunnable are held effects that the sweeper found free to run. Anything but
	// 0 is an error of ours; they were set going.
	HeldRunnable uint64
}

// OrderCounters are the counters of [OrderStats], by route.
type OrderCounters struct {
	mu     sync.RWMutex
	routes map[int32]*RouteCounters
}

type RouteCounters struct {
	held, superseded, filtered, longGaps, abandonedGaps, late, ties, MissingKeys, MissingNumbers, heldRunnable atomic.Uint64
}

func (c *OrderCounters) Of(route int32) *RouteCounters {
	c.mu.RLock()
	r := c.routes[route]
	c.mu.RUnlock()
	if r != nil {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.routes == nil {
		c.routes = map[int32]*RouteCounters{}
	}
	if c.routes[route] == nil {
		c.routes[route] = new(RouteCounters)
	}
	return c.routes[route]
}

func (c *OrderCounters) Snapshot() map[int32]OrderStats {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make(map[int32]OrderStats, len(c.routes))
	for id, r := range c.routes {
		out[id] = OrderStats{
			Held: r.held.Load(), Superseded: r.superseded.Load(), Filtered: r.filtered.Load(), LongGaps: r.longGaps.Load(),
			AbandonedGaps: r.abandonedGaps.Load(), Late: r.late.Load(), Ties: r.ties.Load(), MissingKeys: r.MissingKeys.Load(),
			MissingNumbers: r.MissingNumbers.Load(), HeldRunnable: r.heldRunnable.Load(),
		}
	}
	return out
}

// OrderStats returns, by route, what order has done to effects of this process.
func (e *Effects) OrderStats() map[int32]OrderStats { return e.order.Snapshot() }
