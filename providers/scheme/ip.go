package scheme

import (
	"errors"
	"net/netip"
)

// IP takes requests from listed addresses. It is Go because the proof is no part
// of the request. It proves an address and nothing else: use it beside something
// better.
type IP struct{}

// Check refuses: there is no secret.
func (IP) Check([]byte) error { return errors.New("is not used: the address is the proof") }

// Secretless holds.
func (IP) Secretless(Settings) bool { return true }

// Prepare checks the list.
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

// Verify looks the client's address up. An IPv4 address written as IPv6 is the
// same address.
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
