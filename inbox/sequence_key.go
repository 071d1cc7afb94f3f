package inbox

import (
	"crypto/sha256"
	"strconv"
)

// SequenceKeyHash is how a sequence key is stored where there is no secret: hashed together
// with its source and route, by the names under which those were first registered. The lengths keep the parts from running into each other.
func SequenceKeyHash(source, route, key string) []byte {
	h := sha256.New()
	for _, part := range []string{source, route, key} {
		h.Write([]byte(strconv.Itoa(len(part))))
		h.Write([]byte{':'})
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// StreamObject is how an audit entry names a stream.
func StreamObject(id int64) string { return "stream/" + strconv.FormatInt(id, 10) }
