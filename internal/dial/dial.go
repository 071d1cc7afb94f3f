// Package dial says which network addresses a connection of ours may go to. It
// is asked with the address that is about to be dialled, after names were
// resolved, so that no answer of a name server leads where it should not.
package dial

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
)

// ErrAddress is a dial that the guard refused.
var ErrAddress = errors.New("address refused")

// Guard is a Control function for a [net.Dialer]. It refuses addresses that
// nobody's target may have: the link-local ones (among them the metadata services
// of clouds), multicast, unspecified and broadcast, also wrapped in IPv6. Loopback
// and private ones are the choice of who configured the target.
func Guard(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !Allowed(at.Addr()) {
		return ErrAddress
	}
	return nil
}

// metadata are the addresses of metadata services that are not link-local.
func metadata() []netip.Addr {
	return []netip.Addr{
		netip.AddrFrom4([4]byte{100, 100, 100, 200}), // Alibaba Cloud
		netip.AddrFrom4([4]byte{192, 0, 0, 192}),     // Oracle Cloud
		netip.AddrFrom4([4]byte{168, 63, 129, 16}),   // Azure
		netip.MustParseAddr("fd00:ec2::254"),         // AWS
		netip.MustParseAddr("fd20:ce::254"),          // Google Cloud
	}
}

// Allowed reports whether an address is one that a target may have.
func Allowed(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	if addr.Is6() {
		if inner, ok := embedded(addr); ok {
			return Allowed(inner)
		}
	}
	switch {
	case !addr.IsValid(), addr.IsUnspecified(), addr.IsMulticast(), addr.IsLinkLocalUnicast():
		return false
	case addr.Is4() && (addr.As4()[0] == 0 || addr.As4()[0] >= 240):
		return false
	}
	return !slices.Contains(metadata(), addr)
}

// Public reports whether an address is one of the public internet: what
// [Allowed] takes, without loopback, private, shared and documentation ranges.
func Public(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	if addr.Is6() {
		if inner, ok := embedded(addr); ok {
			return Public(inner)
		}
	}
	if !Allowed(addr) || addr.IsLoopback() || addr.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(reserved(), func(p netip.Prefix) bool { return p.Contains(addr) })
}

// reserved are the ranges of the IANA registries that are not globally
// reachable, beside those that package netip knows.
func reserved() []netip.Prefix {
	out := make([]netip.Prefix, 0, 10)
	for _, text := range []string{
		"100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"100::/64", "2001:db8::/32", "3fff::/20",
	} {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// embedded gives the IPv4 address inside an IPv6 one: NAT64 (the well-known and
// the local prefix), 6to4, the deprecated IPv4-compatible form and Teredo.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	last := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(addr), netip.MustParsePrefix("64:ff9b:1::/48").Contains(addr):
		return last, true
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case netip.MustParsePrefix("::/96").Contains(addr) && b[12]|b[13]|b[14] != 0:
		return last, true
	case netip.MustParsePrefix("2001::/32").Contains(addr):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	}
	return netip.Addr{}, false
}
