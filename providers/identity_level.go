package providers

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// levelID returns the event id for a provider whose identical deliveries are legitimately different
// events. The id consists of the time of receipt (in microseconds) and the digest of the event's
// bytes. The same arrival therefore keeps its id when it is verified again or its commit is
// retried, and a later arrival of the same bytes is a separate event. Two arrivals of the same
// bytes in one microsecond become one event. That loses nothing, because such an event only says
// that there is something to fetch, and both arrived before the fetch.
func levelID(req *Request, event []byte, index int) string {
	sum := sha256.Sum256(event)
	return "level:" + strconv.FormatInt(req.ReceivedAt.UnixMicro(), 10) + ":" + hex.EncodeToString(sum[:12]) + ":" + strconv.Itoa(index)
}

// levelRule is a condition under which an event without an id is a separate event.
type levelRule struct {
	MatchSpec
	field field
}

// holds reports whether an event satisfies the condition. A value of any kind counts as present.
func (r *levelRule) holds(s *source) bool {
	value, ok, err := r.field.read(s, false)
	if r.Absent {
		return !ok && err == nil
	}
	return (ok || err != nil) && (r.Equals == "" || err == nil && value == r.Equals)
}
