package inbox

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// IdempotencyKey is made from what the effect means, so that every retry, on
// every layer and after every restore, sends the same one. The lengths keep
// parts from running into each other. source and route are the names under which
// they were first registered: a key does not change with a name.
func IdempotencyKey(source, eventID, route string) string {
	h := sha256.New()
	for _, part := range []string{source, eventID, route} {
		h.Write([]byte(strconv.Itoa(len(part))))
		h.Write([]byte{':'})
		h.Write([]byte(part))
	}
	return "og1_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
