package gate

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// lane is the queue of the deliveries of one durability. Each lane has flushers of its own, so that a standby that
// hangs stops only the lanes that wait for it.
type lane struct {
	durability inbox.Durability // the strictest of those that commit in the same way
	commits    string           // synchronous_commit of its transactions, if the sessions have another one

	bytes       int64 // the most that may wait
	queue       chan *delivery
	overflow    chan *delivery // deliveries that were taken but did not fit a group
	turn        chan struct{}  // held by the flusher that commits
	queuedBytes atomic.Int64
	health      health
}

// makeLanes makes a lane for each durability that is configured.
func makeLanes(cfg *Config) (lanes []*lane) {
	wanted := slices.Clone(cfg.Durabilities)
	if len(wanted) == 0 {
		wanted = []inbox.Durability{inbox.DurabilityServer}
	}
	slices.SortFunc(wanted, inbox.Durability.Compare)
	wanted = slices.CompactFunc(wanted, func(a, b inbox.Durability) bool { return a.Compare(b) == 0 })
	session := wanted[len(wanted)-1].SynchronousCommit()
	for _, d := range wanted {
		l := &lane{
			durability: d, bytes: cfg.QueueBytes / int64(len(wanted)), queue: make(chan *delivery, max(cfg.QueueEvents/len(wanted), 1)),
			overflow: make(chan *delivery, cfg.Flushers), turn: make(chan struct{}, 1),
		}
		if commits := d.SynchronousCommit(); commits != session {
			l.commits = commits
		}
		lanes = append(lanes, l)
	}
	return lanes
}

// laneOf returns the lane of a durability. One that is not configured gets the next stricter lane, or the strictest.
func (g *Gate) laneOf(d inbox.Durability) *lane {
	for _, l := range g.lanes {
		if l.durability.Compare(d) >= 0 {
			return l
		}
	}
	return g.lanes[len(g.lanes)-1]
}

func (g *Gate) enqueue(d *delivery) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.stopped {
		return errStopping
	}
	l, size := d.lane, int64(d.size())
	if !g.reserve(l, size) {
		return ErrOverloaded
	}
	select {
	case l.queue <- d:
		return nil
	default:
		l.queuedBytes.Add(-size)
		g.stats.overloads.Add(1)
		return ErrOverloaded
	}
}

// reserve takes bytes of the queue's budget, or counts an overload. A delivery that
// is larger than the budget passes when nothing else waits.
func (g *Gate) reserve(l *lane, size int64) bool {
	if waiting := l.queuedBytes.Add(size); waiting > l.bytes && waiting > size {
		l.queuedBytes.Add(-size)
		g.stats.overloads.Add(1)
		return false
	}
	return true
}

// flush takes all deliveries of a lane that wait, without lingering for more, and commits them.
func (g *Gate) flush(l *lane) {
	for {
		first := l.take()
		if first == nil {
			return
		}
		mine := l.takeTurn()
		group, rest := l.fillGroup(first, g.cfg.GroupEvents, g.cfg.GroupBytes)
		if rest != nil {
			l.overflow <- rest // there is room for one of each flusher
		}
		g.commit(group)
		if mine {
			<-l.turn
		}
	}
}

// take waits for a delivery. It first takes one that did not fit a group, whichever flusher left it. It returns nil
// when the gate is stopped and the queue is empty. A flusher that left a delivery takes it next, unless another one has
// taken it.
func (l *lane) take() *delivery {
	select {
	case d := <-l.overflow:
		return d
	default:
	}
	select {
	case d := <-l.overflow:
		return d
	case d, open := <-l.queue:
		if open {
			return d
		}
	}
	select {
	case d := <-l.overflow:
		return d
	default:
		return nil
	}
}

// turnTimeout is how long a flusher waits for the one that commits: longer than a group takes, shorter than a person
// notices.
const turnTimeout = 10 * time.Millisecond

// takeTurn waits until no other flusher commits, or until that has taken so long
// that it must be waiting for a lock. Groups that are committed one after the
// other are larger than groups committed at once, and cost less each.
func (l *lane) takeTurn() (taken bool) {
	select {
	case l.turn <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(turnTimeout)
	defer timer.Stop()
	select {
	case l.turn <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

// fillGroup adds to first the waiting deliveries that fit; rest is one that was taken and did not fit.
func (l *lane) fillGroup(first *delivery, mostEvents, mostBytes int) (group []*delivery, rest *delivery) {
	group = append(group, first)
	events, bytes := len(first.entries), first.size()
	for {
		select {
		case d, ok := <-l.queue:
			if !ok {
				return group, nil
			}
			events, bytes = events+len(d.entries), bytes+d.size()
			if events > mostEvents || bytes > mostBytes {
				return group, d
			}
			group = append(group, d)
		default:
			return group, nil
		}
	}
}
