package effect

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
)

// errAddress is a dial that the guard refused.
var errAddress = errors.New("address refused")

// guardedDial refuses addresses that no target may have, after names were
// resolved, so that no answer of a name server leads there: the link-local ones
// (among them the metadata services of clouds), multicast, unspecified and
// broadcast, also wrapped in IPv6. Loopback and private ones are a target's own
// choice.
func guardedDial(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !allowed(at.Addr()) {
		return errAddress
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

func allowed(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	if addr.Is6() {
		if inner, ok := embedded(addr); ok {
			return allowed(inner)
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
