package receiver

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ConnectionsConfig configures [Connections]. Logger is required.
type ConnectionsConfig struct {
	Logger *slog.Logger

	// Most is how many connections may be open at once. Beyond it, Connections closes those
	// that have waited longest without a request, or whose request arrives most slowly. It
	// refuses a new one only if all others carry requests that have arrived. It defaults to
	// 4096.
	Most int

	// MostOfPeer is how many one peer's address may have open; an IPv6 peer is its /64.
	// Beyond it the peer's own connections make room in the same way. It defaults to a
	// quarter of Most.
	MostOfPeer int

	// TrustedProxies are the peers without a separate limit, because many senders come through
	// them.
	TrustedProxies []netip.Prefix

	// Now defaults to time.Now.
	Now func() time.Time
}

// DefaultConnections is the default of [ConnectionsConfig.Most].
const DefaultConnections = 4096

// Connections bounds the connections of a public server: of all peers and of each. It
// never closes one whose request has arrived and is being answered.
type Connections struct {
	cfg ConnectionsConfig

	mu     sync.Mutex
	open   map[*connection]struct{}
	peers  map[netip.Addr]*peer
	warned time.Time

	shed, refused atomic.Uint64
}

// peer is an address that has connections.
type peer struct {
	open    map[*connection]struct{}
	limited bool
}

// ConnectionStats are the counts of [Connections].
type ConnectionStats struct {
	Open, Peers, Most int

	// Shed are those that were closed to make room, Refused those that found none.
	Shed, Refused uint64
}

// NewConnections checks the configuration and makes the bounds.
func NewConnections(cfg ConnectionsConfig) (*Connections, error) {
	if cfg.Logger == nil {
		return nil, errors.New("connections: Logger is required")
	}
	if cfg.Most < 0 || cfg.MostOfPeer < 0 {
		return nil, errors.New("connections: Most and MostOfPeer must not be negative")
	}
	cfg.Now = clock(cfg.Now)
	cfg.Most = cmp.Or(cfg.Most, DefaultConnections)
	cfg.MostOfPeer = cmp.Or(cfg.MostOfPeer, max(cfg.Most/4, 1))
	return &Connections{cfg: cfg, open: map[*connection]struct{}{}, peers: map[netip.Addr]*peer{}}, nil
}

// Stats returns the counts.
func (c *Connections) Stats() ConnectionStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ConnectionStats{Open: len(c.open), Peers: len(c.peers), Most: c.cfg.Most, Shed: c.shed.Load(), Refused: c.refused.Load()}
}

// Listen bounds the connections that a listener accepts. The server that serves it must
// be one to which [Connections.Watch] was applied.
func (c *Connections) Listen(l net.Listener) net.Listener { return &listener{l, c} }

// Watch makes a server report the states of its connections. It must be called before the
// server serves. Connections of a server that is not watched are closed as if all of them
// waited.
func (c *Connections) Watch(server *http.Server) {
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		// admit has noted when a new connection came. Noting it here again made the connection younger than it is.
		if one := admitted(conn); one != nil && state != http.StateNew {
			one.enter(state, c.cfg.Now())
		}
	}
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if one := admitted(conn); one != nil {
			return context.WithValue(ctx, connectionKey{}, one)
		}
		return ctx
	}
}

// admitted returns the connection that was admitted, which TLS may wrap.
func admitted(conn net.Conn) *connection {
	if surrounding, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = surrounding.NetConn()
	}
	one, _ := conn.(*connection)
	return one
}

// listener admits what it accepts.
type listener struct {
	net.Listener
	connections *Connections
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				// The process has no file descriptor left, although the limit is not reached:
				// the server tries again.
				l.connections.relieve()
			}
			return nil, err
		}
		if admitted := l.connections.admit(conn); admitted != nil {
			return admitted, nil
		}
		_ = conn.Close()
	}
}

// admit adds a connection and may close others to make room. It returns nil if there is no
// room.
func (c *Connections) admit(conn net.Conn) net.Conn {
	one := &connection{Conn: conn, of: c}
	one.enter(http.StateNew, c.cfg.Now())
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		one.addr = tcp.AddrPort().Addr().Unmap()
	}
	c.mu.Lock()
	from := c.peers[network(one.addr)]
	if from == nil {
		from = &peer{open: map[*connection]struct{}{}, limited: one.addr.IsValid() && !contains(c.cfg.TrustedProxies, one.addr)}
	}
	var victims []*connection
	refused := false
	if from.limited && len(from.open) >= c.cfg.MostOfPeer {
		victims = c.victims(from.open, len(from.open)-c.cfg.MostOfPeer+1)
		refused = len(victims) == 0
		c.warn(one.addr)
	}
	if !refused && len(c.open) >= c.cfg.Most {
		victims = append(victims, c.victims(c.open, len(c.open)-c.cfg.Most+1)...)
		refused = len(c.open) >= c.cfg.Most
	}
	if !refused {
		c.open[one], from.open[one] = struct{}{}, struct{}{}
		c.peers[network(one.addr)] = from
	}
	c.mu.Unlock()
	for _, victim := range victims {
		_ = victim.Conn.Close()
	}
	c.shed.Add(uint64(len(victims)))
	if refused {
		c.refused.Add(1)
		return nil
	}
	return one
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// relieve closes some of the least useful connections.
func (c *Connections) relieve() {
	c.mu.Lock()
	victims := c.victims(c.open, 1)
	c.mu.Unlock()
	for _, victim := range victims {
		_ = victim.Conn.Close()
	}
	c.shed.Add(uint64(len(victims)))
}

// victims chooses connections of the set to close, at least as many as are needed if there are
// that many, and removes them from the books. They come from the peers with the most
// connections that bring nothing, the slowest first, and several at once, so that a flood of
// connections does not search all of them each time. Connections that have brought a verified
// delivery and wait for the next one come last and one by one. The caller must have locked
// c.mu and closes them after unlocking it.
func (c *Connections) victims(set map[*connection]struct{}, need int) []*connection {
	now := c.cfg.Now()
	candidates := make([]candidate, 0, len(set))
	for one := range set {
		if rate, proved, ok := one.worth(now); ok {
			candidates = append(candidates, candidate{one: one, peer: network(one.addr), proved: proved, rate: rate})
		}
	}
	c.rank(candidates)
	slices.SortFunc(candidates, func(x, y candidate) int {
		switch {
		case x.proved != y.proved && x.proved:
			return 1
		case x.proved != y.proved:
			return -1
		}
		return cmp.Or(cmp.Compare(y.faster, x.faster), cmp.Compare(x.rate, y.rate))
	})
	many := max(need, len(set)/64)
	var out []*connection
	for i, one := range candidates {
		if i >= need && (i >= many || one.proved || one.rate > idle) {
			break
		}
		out = append(out, one.one)
		c.forget(one.one)
	}
	return out
}

// candidate is a connection that may be closed for another one.
type candidate struct {
	one    *connection
	peer   netip.Addr
	proved bool
	rate   float64
	faster int // of its peer's connections
}

// rank counts for each candidate how many faster ones its peer has. The connections of a
// trusted proxy belong to many senders, so they are not counted against each other.
func (c *Connections) rank(candidates []candidate) {
	slices.SortFunc(candidates, func(x, y candidate) int {
		return cmp.Or(x.peer.Compare(y.peer), cmp.Compare(y.rate, x.rate))
	})
	for i := 1; i < len(candidates); i++ {
		one, before := &candidates[i], &candidates[i-1]
		if from := c.peers[one.peer]; one.peer == before.peer && from != nil && from.limited {
			one.faster = before.faster + 1
		}
	}
}

// idle is the rate, in bytes a second, below which more connections are closed at once than
// are needed: the rate of a connection that has been silent for an eighth of a second.
const idle = 8 * headStart

// forget removes a connection from the books. The caller must have locked c.mu.
func (c *Connections) forget(one *connection) {
	delete(c.open, one)
	addr := network(one.addr)
	if from := c.peers[addr]; from != nil {
		if delete(from.open, one); len(from.open) == 0 {
			delete(c.peers, addr)
		}
	}
}

// warn logs that a peer is at its limit, at most once a minute. The caller must have locked
// c.mu.
func (c *Connections) warn(addr netip.Addr) {
	now := c.cfg.Now()
	if now.Sub(c.warned) < time.Minute {
		return
	}
	c.warned = now
	c.cfg.Logger.Warn(logConnections, slog.String("peer", addr.String()), slog.Int("connections", c.cfg.MostOfPeer))
}
