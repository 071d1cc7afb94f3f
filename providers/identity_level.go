package providers

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// levelID makes the event id of a provider whose identical deliveries are
// legitimately different. It is made of the time of receipt (in microseconds)
// and of the event's bytes, so that the same arrival has the same id however
// often it is verified or its commit is tried again, while a later arrival of
// the same bytes is an event of its own. Two arrivals of the same bytes in one
// microsecond become one, which loses nothing: such an event only says that
// there is something to fetch, and both came before anybody fetched it.
func levelID(req *Request, event []byte, index int) string {
	sum := sha256.Sum256(event)
	return "level:" + strconv.FormatInt(req.ReceivedAt.UnixMicro(), 10) + ":" + hex.EncodeToString(sum[:12]) + ":" + strconv.Itoa(index)
}

// levelRule is a condition under which an event without an id is one of its own.
type levelRule struct {
	MatchSpec
	field field
}

// holds reports whether the event meets the condition. A value of any kind is there.
func (r *levelRule) holds(s *source) bool {
	value, ok, err := r.field.read(s, false)
	if r.Absent {
		return !ok && err == nil
	}
	return (ok || err != nil) && (r.Equals == "" || err == nil && value == r.Equals)
}
