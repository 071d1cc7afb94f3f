package access

import (
	"errors"
	"net/netip"
	"sync"
	"time"
)

// Rate limits for lookups of unknown tokens, cookies, codes and links, per second: for one peer,
// and for all peers together, each with a burst. Lookups that find something do not count.
const (
	peerPerSecond, peerBurst = 1, 20
	allPerSecond, allBurst   = 20, 200

	// maxPeers is the most peers that are tracked in memory.
	maxPeers = 4_096
)

// errTooMany means that too many attempts failed in the last seconds. The value that was sent may
// be genuine.
var errTooMany = errors.New("too many attempts")

// guesses limits the rate of failed attempts, which may be guesses. A peer is an IPv4 address, or
// the /64 network of an IPv6 address.
type guesses struct {
	mu    sync.Mutex
	peers map[netip.Addr]*bucket
	all   *bucket
}

func newGuesses() *guesses {
	return &guesses{peers: map[netip.Addr]*bucket{}, all: newBucket(allPerSecond, allBurst)}
}

// take counts an attempt of the peer. It reports whether the attempt is allowed.
func (g *guesses) take(peer netip.Addr, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	peer = network(peer)
	own := g.peers[peer]
	if own == nil {
		g.makeRoom(now)
		own = newBucket(peerPerSecond, peerBurst)
		g.peers[peer] = own
	}
	own.fill(now)
	g.all.fill(now)
	if own.tokens < 1 || g.all.tokens < 1 {
		return false
	}
	own.tokens--
	g.all.tokens--
	return true
}

// give undoes take after an attempt that turned out to be genuine.
func (g *guesses) give(peer netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range []*bucket{g.peers[network(peer)], g.all} {
		if b != nil {
			b.tokens = min(b.burst, b.tokens+1)
		}
	}
}

// makeRoom removes peers if the map is full. It removes the peers whose burst is full again, which
// loses nothing, and others only if the map is still full.
func (g *guesses) makeRoom(now time.Time) {
	if len(g.peers) < maxPeers {
		return
	}
	for peer, b := range g.peers {
		if b.fill(now); b.tokens >= b.burst {
			delete(g.peers, peer)
		}
	}
	if len(g.peers) >= maxPeers {
		dropTenth(g.peers)
	}
}

// bucket is a token bucket. The mutex of its owner guards it.
type bucket struct {
	perSecond, burst, tokens float64
	at                       time.Time
}

func newBucket(perSecond, burst float64) *bucket {
	return &bucket{perSecond: perSecond, burst: burst, tokens: burst}
}

func (b *bucket) fill(now time.Time) {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		if !b.at.IsZero() {
			b.tokens = min(b.burst, b.tokens+passed*b.perSecond)
		}
		b.at = now
	}
}

func network(peer netip.Addr) netip.Addr {
	peer = peer.WithZone("").Unmap()
	if peer.Is6() {
		if prefix, err := peer.Prefix(64); err == nil {
			return prefix.Addr()
		}
	}
	return peer
}
