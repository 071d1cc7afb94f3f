// Package egress makes all outgoing connections: forwards, probes, mail and key fetches. It checks
// the address of each connection after the host was resolved, so a name server cannot direct a
// connection to a refused address by changing its answer.
//
// It is a separate package because receiving (key fetches) and sending both dial, and are
// independent of each other.
//
// Call [New] with the allowed networks, and dial with the [Guard].
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrRefused means that the guard does not allow a connection to the address.
var ErrRefused = errors.New("address refused")

// Config configures a [Guard]. Every field has a default.
type Config struct {
	// Allow lists networks that the guard connects to although they are private. It has no effect
	// on addresses that are never allowed: link-local ones, metadata services, multicast.
	Allow []netip.Prefix

	// Timeout limits the establishment of one connection. 0 means the default of 10 s.
	Timeout time.Duration

	// Resolver resolves host names. It defaults to the standard library's resolver.
	Resolver *net.Resolver
}

// Guard dials allowed addresses. It never uses a proxy from the environment.
type Guard struct {
	allow  []netip.Prefix
	dialer net.Dialer
}

// New returns a Guard.
func New(cfg Config) *Guard {
	g := &Guard{allow: slices.Clone(cfg.Allow)}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	g.dialer = net.Dialer{Timeout: cfg.Timeout, KeepAlive: 30 * time.Second, Resolver: cfg.Resolver, Control: g.control}
	return g
}

// DialContext connects to an allowed address, as [net.Dialer] does. You can use it in
// [net/http.Transport] and mail clients.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil, ErrRefused
	}
	return g.dialer.DialContext(ctx, network, address)
}

// control checks each address before the dialer connects to it. Its error names the address and
// says whether a configuration could allow it.
func (g *Guard) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return ErrRefused
	case g.Allows(at.Addr()):
		return nil
	case forbidden(at.Addr()):
		return fmt.Errorf("%w: %s is link-local, a metadata service or no address of a host, which nothing permits", ErrRefused, at.Addr())
	}
	return fmt.Errorf("%w: %s is not public; `allow` with its network would permit it", ErrRefused, at.Addr())
}

// Allows reports whether the guard connects to an address: a public one, or one in the allowed
// networks. If the address contains an IPv4 address, that address is checked as well.
func (g *Guard) Allows(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	inner := addr
	if wrapped, ok := embedded(addr); ok {
		inner = wrapped
	}
	if never(addr) || never(inner) {
		return false
	}
	if !special(addr) && !special(inner) && inner == addr {
		return true
	}
	return slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr) || p.Contains(inner) })
}

// Named returns the networks that a host name selects by itself: a literal address selects itself,
// because no name server is involved, and localhost selects the loopback networks. For any other
// name it returns nil.
func Named(host string) []netip.Prefix {
	if strings.EqualFold(host, "localhost") {
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	addr = addr.WithZone("").Unmap()
	return []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())}
}
