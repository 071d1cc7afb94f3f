package receiver

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// patience is how long a body waits for memory that slower ones are about to give back.
	patience = 3 * time.Second

	// atOnce is how much is shed at once at least, so that many small needs do not look
	// through all bodies one after the other.
	atOnce = 256 << 10

	// headStart counts as received of every body, so that one that has just begun is not
	// the slowest.
	headStart = 4 << 10
)

// budget is the memory of bodies in flight. It keeps the reserved parts free. To get missing memory it sheds
// the slowest bodies that are still arriving: never one that has arrived whole, and none for a body that is
// about as slow itself.
type budget struct {
	mu sync.Mutex

	// committed is the memory that sources use, and the reserves of sources that use less.
	committed int64
	large     int64 // used by buffers that are larger than those of small bodies
	arriving  []*body
	peers     map[netip.Addr]*peerShare

	// changed is closed when memory was returned; nil if no body waits for it.
	changed chan struct{}
}

// share is a source's part of the budget.
type share struct {
	reserve int64
	used    int64 // under the budget's lock
}

// commits is how much of the budget the source commits if it uses n.
func (s *share) commits(n int64) int64 { return max(n, s.reserve) }

// peerShare is the memory of one peer's bodies that are still arriving.
type peerShare struct {
	addr   netip.Addr
	bodies int
	used   int64
}

// enter adds a body to those that are arriving. An invalid address has no separate limit.
func (b *bodies) enter(one *body, from netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one.index = len(b.arriving)
	b.arriving = append(b.arriving, one)
	if from = network(from); !from.IsValid() {
		return
	}
	one.peer = b.peers[from]
	if one.peer == nil {
		if b.peers == nil {
			b.peers = map[netip.Addr]*peerShare{}
		}
		one.peer = &peerShare{addr: from}
		b.peers[from] = one.peer
	}
	one.peer.bodies++
}

// leave removes a body from those that are arriving: it has arrived, or was abandoned.
func (b *bodies) leave(one *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.arriving) - 1
	moved := b.arriving[last]
	b.arriving[one.index], moved.index = moved, one.index
	b.arriving[last] = nil
	b.arriving = b.arriving[:last]
	if peer := one.peer; peer != nil {
		peer.used -= one.charged
		if peer.bodies--; peer.bodies == 0 {
			delete(b.peers, peer.addr)
		}
		one.peer = nil
	}
	b.notify()
}

// network returns the network that one peer has: for IPv6 a whole /64.
func network(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() {
		if p, err := a.WithZone("").Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// notify wakes the bodies that wait for memory. The caller must have locked b.mu.
func (b *budget) notify() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// charge books n bytes, or returns them if n is negative. The caller must have locked b.mu.
func (b *bodies) charge(to *body, n int64) {
	b.committed -= to.share.commits(to.share.used)
	to.share.used += n
	b.committed += to.share.commits(to.share.used)
	if size := max(n, -n); size > b.small {
		b.large += n
	}
	to.charged += n
	if to.peer != nil {
		to.peer.used += n
	}
	b.inUse.Add(n)
}

func (b *bodies) give(from *body, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.charge(from, -n)
	b.notify()
}

// take charges n bytes to a body that is arriving. If they are not free, it sheds slower bodies for them, and
// waits until those have returned their memory.
func (b *bodies) take(asker *body, n int64) error {
	var timer *time.Timer
	for {
		b.mu.Lock()
		if asker.shed {
			b.mu.Unlock()
			return errShed
		}
		scarce := b.scarce(asker, n)
		if scarce.missing <= 0 {
			if asker.charged == 0 {
				asker.started = b.now()
			}
			b.charge(asker, n)
			b.mu.Unlock()
			return nil
		}
		shed, expected := b.slower(asker, &scarce)
		if !expected {
			b.mu.Unlock()
			return errBudget
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		for _, one := range shed {
			one.cutOff()
		}
		if timer == nil {
			timer = time.NewTimer(patience)
			defer timer.Stop()
		}
		select {
		case <-changed:
		case <-timer.C:
			return errBudget
		}
	}
}

// scarcity says why memory cannot be charged: how many bytes are missing, and which bodies could free some.
type scarcity struct {
	missing int64
	of      func(*body) bool
}

// scarce checks whether n more bytes can be charged, and returns what is missing. The caller must have locked
// b.mu.
func (b *bodies) scarce(asker *body, n int64) scarcity {
	if peer := asker.peer; peer != nil && peer.bodies > 1 && peer.used+n > b.peerBytes {
		return scarcity{peer.used + n - b.peerBytes, func(other *body) bool { return other.peer == peer }}
	}
	if n > b.small && b.large+n > b.bytes-b.smallReserve {
		return scarcity{b.large + n - (b.bytes - b.smallReserve), func(other *body) bool { return other.charged > b.small }}
	}
	share := asker.share
	if more := b.committed + share.commits(share.used+n) - share.commits(share.used); more > b.bytes {
		// Memory within another source's reserve frees nothing for this one.
		return scarcity{more - b.bytes, func(other *body) bool { return other.share == share || other.share.used > other.share.reserve }}
	}
	return scarcity{}
}

// slower chooses the slowest bodies that together free the missing memory, and reports whether that much is
// or will be returned. A body is shed only for one that is at least twice as fast: of equally fast bodies,
// those that came first continue. The caller must have locked b.mu and cuts the bodies off after unlocking
// it.
func (b *bodies) slower(asker *body, scarce *scarcity) (shed []*body, expected bool) {
	now := b.now()
	rate := asker.rate(now)
	var coming int64
	type candidate struct {
		body *body
		rate float64
	}
	var candidates []candidate
	for _, other := range b.arriving {
		switch {
		case other == asker || other.charged == 0 || !scarce.of(other):
		case other.shed:
			coming += other.charged
		default:
			if r := other.rate(now); 2*r < rate {
				candidates = append(candidates, candidate{other, r})
			}
		}
	}
	if coming >= scarce.missing {
		return nil, true
	}
	slices.SortFunc(candidates, func(x, y candidate) int { return cmp.Compare(x.rate, y.rate) })
	for _, c := range candidates {
		if coming >= max(scarce.missing, atOnce) {
			break
		}
		shed = append(shed, c.body)
		coming += c.body.charged
	}
	if coming < scarce.missing {
		return nil, false // what could be shed would not be enough
	}
	for _, one := range shed {
		one.shed = true
	}
	b.notify() // one of them may wait for memory itself
	return shed, true
}

// rate is how fast a body has arrived until now, in bytes a second. A body without memory counts as just
// begun, however long it has waited for a lock, for memory or for a processor, because its sender did not
// cause that wait. The caller must have locked b.mu.
func (b *body) rate(now time.Time) float64 {
	var took time.Duration
	if b.charged > 0 {
		took = now.Sub(b.started)
	}
	return float64(b.received.Load()+headStart) / max(took.Seconds(), 0.001)
}
