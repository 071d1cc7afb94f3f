package receiver

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// BodyLimits bound what bodies may cost. A zero field takes its default.
type BodyLimits struct {
	// BodyTimeout is how long a sender may take to send a body. It defaults to 10 s.
	BodyTimeout time.Duration

	// LeastBodyRate is how many bytes of its body a sender must send a second, on
	// average since the end of the headers. A slower one is answered with 408. It
	// defaults to 1 KiB; -1 is no least rate.
	LeastBodyRate int64

	// BodyGrace is how long a sender may be slower than LeastBodyRate. It defaults to
	// 5 s.
	BodyGrace time.Duration

	// BodyBytes is the memory for bodies of all deliveries in flight. It is charged as
	// bytes arrive. When it is used up, the slowest bodies that are still arriving are
	// shed and answered with 503; a new one is answered so only if none is slower. It
	// defaults to 64 MiB.
	BodyBytes int64

	// SmallBody is the size up to which a body may use SmallBodyReserve, in bytes. It
	// defaults to 64 KiB.
	SmallBody int64

	// SmallBodyReserve is the part of BodyBytes that larger bodies never use. It
	// defaults to an eighth; -1 reserves nothing.
	SmallBodyReserve int64

	// SourceReserve is the part of BodyBytes that is kept for each source and that other
	// sources never use. It defaults to an eighth divided by the number of sources; -1
	// reserves nothing.
	SourceReserve int64

	// PeerBodyBytes is what the bodies of one sender's address may hold while they are
	// arriving, unless it is a single one. Beyond it the sender's own slowest bodies are
	// shed. An IPv6 sender is its /64. It defaults to half of BodyBytes.
	PeerBodyBytes int64
}

// DefaultBodyBytes is the default of [BodyLimits.BodyBytes].
const DefaultBodyBytes = 64 << 20

// bodyLimits are [BodyLimits] with their defaults. Zero is no limit, or nothing reserved.
type bodyLimits struct {
	bytes         int64
	timeout       time.Duration
	leastRate     int64
	grace         time.Duration
	small         int64
	smallReserve  int64
	sourceReserve int64
	peerBytes     int64
	sources       int64
}

// resolve checks the limits and fills in the defaults for a receiver of so many sources.
func (l *BodyLimits) resolve(sources int) (bodyLimits, error) {
	out := bodyLimits{
		bytes:   cmp.Or(l.BodyBytes, DefaultBodyBytes),
		timeout: cmp.Or(l.BodyTimeout, 10*time.Second),
		grace:   cmp.Or(l.BodyGrace, 5*time.Second),
		small:   cmp.Or(l.SmallBody, 64<<10),
		sources: max(int64(sources), 1),
	}
	out.leastRate = max(cmp.Or(l.LeastBodyRate, 1<<10), 0)
	out.smallReserve = max(cmp.Or(l.SmallBodyReserve, out.bytes/8), 0)
	out.sourceReserve = max(cmp.Or(l.SourceReserve, out.bytes/8/out.sources), 0)
	out.peerBytes = cmp.Or(l.PeerBodyBytes, out.bytes/2)
	var errs []error
	for _, field := range []struct {
		name     string
		n, least int64
	}{
		{"BodyTimeout", int64(l.BodyTimeout), 0},
		{"BodyGrace", int64(l.BodyGrace), 0},
		{"BodyBytes", l.BodyBytes, 0},
		{"SmallBody", l.SmallBody, 0},
		{"PeerBodyBytes", l.PeerBodyBytes, 0},
		{"LeastBodyRate", l.LeastBodyRate, -1},
		{"SmallBodyReserve", l.SmallBodyReserve, -1},
		{"SourceReserve", l.SourceReserve, -1},
	} {
		if field.n < field.least {
			errs = append(errs, fmt.Errorf("%s must not be less than %d", field.name, field.least))
		}
	}
	return out, errors.Join(errs...)
}

// Resolved returns the limits with their defaults for a receiver with that many sources;
// -1 stays.
func (l *BodyLimits) Resolved(sources int) BodyLimits {
	resolved, _ := l.resolve(sources) // New reports the error
	off := func(given, n int64) int64 {
		if given < 0 {
			return given
		}
		return n
	}
	return BodyLimits{
		BodyTimeout: resolved.timeout, BodyGrace: resolved.grace, BodyBytes: resolved.bytes, SmallBody: resolved.small, PeerBodyBytes: resolved.peerBytes,
		LeastBodyRate:    off(l.LeastBodyRate, resolved.leastRate),
		SmallBodyReserve: off(l.SmallBodyReserve, resolved.smallReserve),
		SourceReserve:    off(l.SourceReserve, resolved.sourceReserve),
	}
}

// Needs is how much of BodyBytes a body of the size takes while it grows, and Room is how
// much of it a single body of that size may take, in a receiver of so many sources. A
// source whose largest body needs more than there is room for is refused by [New].
func (l *BodyLimits) Needs(size int64, sources int) (needs, room int64) {
	resolved, _ := l.resolve(sources) // New reports the error
	return peak(size), resolved.room(size)
}

// room is how much memory a single body of the size may use.
func (l *bodyLimits) room(size int64) int64 {
	room := l.bytes - l.sourceReserve*(l.sources-1)
	if capacity(size+1) > l.small {
		room = min(room, l.bytes-l.smallReserve)
	}
	return room
}
