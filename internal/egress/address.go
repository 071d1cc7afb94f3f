package egress

import (
	"net/netip"
	"slices"
)

// Forbidden returns the kind of an address that no guard ever connects to, even if its Allow
// contains the address: "a link-local address", "a metadata service", "a multicast address" or "not the address
// of a host". It returns an empty string for every other address.
func Forbidden(addr netip.Addr) string {
	addr = addr.WithZone("").Unmap()
	if inner, ok := embedded(addr); ok && never(inner) {
		addr = inner
	}
	switch {
	case !never(addr):
		return ""
	case slices.Contains(metadata(), addr), addr == netip.AddrFrom4([4]byte{169, 254, 169, 254}):
		return "a metadata service"
	case addr.IsLinkLocalUnicast():
		return "a link-local address"
	case addr.IsMulticast():
		return "a multicast address"
	}
	return "not the address of a host"
}

// never reports whether addr is an address that no configuration can allow.
func never(addr netip.Addr) bool {
	switch {
	case !addr.IsValid(), addr.IsUnspecified(), addr.IsMulticast(), addr.IsLinkLocalUnicast():
		return true
	case addr.Is4() && (addr.As4()[0] == 0 || addr.As4()[0] >= 240):
		return true
	}
	return slices.Contains(metadata(), addr)
}

// metadata returns the addresses of metadata services that are not link-local.
func metadata() []netip.Addr {
	return []netip.Addr{
		netip.AddrFrom4([4]byte{100, 100, 100, 200}), // Alibaba Cloud
		netip.AddrFrom4([4]byte{192, 0, 0, 192}),     // Oracle Cloud
		netip.AddrFrom4([4]byte{168, 63, 129, 16}),   // Azure
		netip.MustParseAddr("fd00:ec2::254"),         // AWS
		netip.MustParseAddr("fd20:ce::254"),          // Google Cloud
	}
}

// special reports whether addr is private, or in a network of IANA's special-purpose registries
// that is not reachable over the internet.
func special(addr netip.Addr) bool {
	if addr.IsPrivate() || addr.IsLoopback() {
		return true
	}
	for _, network := range []string{
		"100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		if netip.MustParsePrefix(network).Contains(addr) {
			return true
		}
	}
	return false
}

// embedded returns the IPv4 address inside an IPv6 address: NAT64 (the well-known and the local
// prefix), the translated form, 6to4, the deprecated IPv4-compatible form and Teredo.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	last := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(addr), netip.MustParsePrefix("64:ff9b:1::/48").Contains(addr),
		netip.MustParsePrefix("::ffff:0:0:0/96").Contains(addr):
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

// forbidden reports whether no configuration can allow a connection to the address.
func forbidden(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	inner, wrapped := embedded(addr)
	return never(addr) || wrapped && never(inner)
}
