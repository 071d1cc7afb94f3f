// Package egress dials everything that leaves: forwards, probes, mail and the
// fetching of keys. It decides by the address that is about to be connected to,
// after names were resolved, so that no answer of a name server, however it
// changes between two questions, leads where a target must not.
//
// It is a package of its own because the way in and the way out both dial and
// know nothing of each other.
//
// Call [New] with the networks that are allowed, and dial with the [Guard].
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

// ErrRefused is a connection to an address that the guard does not let through.
var ErrRefused = errors.New("address refused")

// Config configures a [Guard]. Everything has a default.
type Config struct {
	// Allow are networks that may be connected to although they are private. It
	// does not help against addresses that nothing may have: link-local ones,
	// metadata services, multicast.
	Allow []netip.Prefix

	// Timeout bounds one connection's making. 0 is the default of 10 s.
	Timeout time.Duration

	// Resolver looks names up. It defaults to the standard library's.
	Resolver *net.Resolver
}

// Guard dials. It never uses a proxy of the environment.
type Guard struct {
	allow  []netip.Prefix
	dialer net.Dialer
}

// New makes a Guard.
func New(cfg Config) *Guard {
	g := &Guard{allow: slices.Clone(cfg.Allow)}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	g.dialer = net.Dialer{Timeout: cfg.Timeout, KeepAlive: 30 * time.Second, Resolver: cfg.Resolver, Control: g.control}
	return g
}

// DialContext connects, as [net.Dialer] does, to an address that is allowed. It
// fits [net/http.Transport] and mail clients.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil, ErrRefused
	}
	return g.dialer.DialContext(ctx, network, address)
}

// control sees each address before it is connected to. Its error says which one it was
// and whether a configuration could let it through.
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

// Allows reports whether an address may be connected to: a public one, or one of
// the networks allowed. One that carries an IPv4 address inside is judged by that
// as well.
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

// Named gives the networks that a host's own spelling chooses: an address
// written out is meant, and no name server has a say in it; so is localhost.
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
