package fetch

import (
	"net/netip"
	"time"
)

// lane admits a limited number of attempts in a minute, and only a share of them from one network
// of clients.
type lane struct {
	rate, share int
	passed      []passed // the attempts admitted within the last minute, oldest first
}

type passed struct {
	at   time.Time
	from netip.Prefix
}

func newLane(rate, share int) lane { return lane{rate: rate, share: max(share, 1)} }

// free reports whether the lane would admit an attempt.
func (l *lane) free(now time.Time, from netip.Prefix) bool {
	gone := 0
	for gone < len(l.passed) && now.Sub(l.passed[gone].at) >= time.Minute {
		gone++
	}
	l.passed = append(l.passed[:0], l.passed[gone:]...)
	if len(l.passed) >= l.rate {
		return false
	}
	mine := 0
	for i := range l.passed {
		if l.passed[i].from == from {
			mine++
		}
	}
	return mine < l.share
}

func (l *lane) pass(now time.Time, from netip.Prefix) { l.passed = append(l.passed, passed{now, from}) }

// network returns the network of a client, because neighbouring addresses usually belong to one
// party. All clients with an unknown address share one network.
func network(client netip.Addr) netip.Prefix {
	client = client.Unmap().WithZone("")
	bits := 24
	if client.Is6() {
		bits = 48
	}
	prefix, err := client.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
