package gate

import (
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// Stats are the counters of a gate since it was made.
type Stats struct {
	// Groups were committed. Events were new, Duplicates and Conflicts were not.
	Groups, Events, Duplicates, Conflicts uint64
	// Displaced are payloads of conflicts that made room for newer ones of their event.
	Displaced uint64
	// Ambiguous commits were resolved by running the group again.
	Ambiguous uint64
	// Splits are groups taken apart so that one delivery fails alone.
	Splits uint64
	// Partitions were missing and made by a delivery.
	Partitions uint64
	// Answered deliveries waited for their commits for Waited in all.
	Answered uint64
	Waited   time.Duration
	// Overloads were refused for lack of room, Failed for a fault of ours.
	Overloads, Failed uint64
	// QueuedEvents and QueuedBytes wait now.
	QueuedEvents int
	QueuedBytes  int64
}

type counters struct {
	groups, events, duplicates, conflicts, ambiguous, splits, partitions, overloads, failed, answered atomic.Uint64

	waited atomic.Int64 // nanoseconds
}

func (c *counters) count(r *inbox.Receipt) {
	for i := range r.Items {
		switch r.Items[i].Outcome {
		case inbox.Recorded:
			c.events.Add(1)
		case inbox.Duplicate:
			c.duplicates.Add(1)
		case inbox.Conflict:
			c.conflicts.Add(1)
		}
	}
}

// count counts a delivery, once, when it is answered.
func (g *Gate) count(d *delivery) {
	g.stats.count(&d.receipt)
	if g.cfg.Counted != nil {
		g.cfg.Counted(d.admission, &d.receipt, d.queuedAt)
	}
}

// Stats counts in memory and does not query the database.
func (g *Gate) Stats() Stats {
	queued, bytes := 0, int64(0)
	for _, l := range g.lanes {
		queued, bytes = queued+len(l.queue), bytes+l.queuedBytes.Load()
	}
	return Stats{
		Groups: g.stats.groups.Load(), Events: g.stats.events.Load(), Duplicates: g.stats.duplicates.Load(),
		Conflicts: g.stats.conflicts.Load(), Displaced: g.cfg.Conflicts.Displaced(), Ambiguous: g.stats.ambiguous.Load(), Splits: g.stats.splits.Load(),
		Partitions: g.stats.partitions.Load(), Overloads: g.stats.overloads.Load(), Failed: g.stats.failed.Load(),
		Answered: g.stats.answered.Load(), Waited: time.Duration(g.stats.waited.Load()),
		QueuedEvents: queued, QueuedBytes: bytes,
	}
}

// OrderStats returns, by route, the number of effects that this process admitted
// without a sequence key or number. The store has the other counters.
func (g *Gate) OrderStats() map[int32]inbox.OrderStats { return g.order.Snapshot() }
