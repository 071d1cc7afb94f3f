package scheme

import (
	"errors"
	"net/netip"
)

// IP accepts requests from listed addresses. It is written in Go because the address is not part of
// the request. An address is weak proof, so combine it with a stronger method.
type IP struct{}

// Check returns an error for every secret, because the scheme uses none.
func (IP) Check([]byte) error { return errors.New("is not used: the address is the proof") }

// Secretless returns true.
func (IP) Secretless(Settings) bool { return true }

// Prepare checks the list of addresses.
func (IP) Prepare(s Settings) error {
	for _, text := range s["cidrs"] {
		prefix, err := parsePrefix(text)
		if err != nil {
			return errors.New("setting cidrs: not an address or a range of addresses")
		}
		if prefix.Bits() == 0 {
			return errors.New("setting cidrs: a range of every address proves nothing")
		}
	}
	return nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// Verify looks up the client's address in the list. It treats an IPv4 address in IPv6 notation as
// the IPv4 address.
func (IP) Verify(in *Input) (Result, error) {
	if !in.Remote.IsValid() {
		return Result{}, errors.New("the client's address is not known")
	}
	addr := in.Remote.WithZone("").Unmap()
	for _, text := range in.Settings["cidrs"] {
		if prefix, err := parsePrefix(text); err == nil && prefix.Contains(addr) {
			return Result{Secret: text}, nil
		}
	}
	return Result{}, refuse(Mismatch, "the client's address is not listed")
}
