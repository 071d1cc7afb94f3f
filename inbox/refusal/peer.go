package refusal

import "net/netip"

// peerOf returns the peer of a refused delivery, to which its share belongs: an IPv4
// address, or the /64 network of an IPv6 address, because a single host usually has all
// addresses of one. All invalid addresses are one peer.
func peerOf(remote string) string {
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return ""
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, err := addr.Prefix(64)
	if err != nil { // an IPv6 address always has one
		return ""
	}
	return network.String()
}
