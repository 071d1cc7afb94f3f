package expression

import (
	"crypto/sha256"
	"encoding/hex"
)

// namespaceURL is the namespace of URLs from RFC 9562, 6.6.
const namespaceURL = "\x6b\xa7\xb8\x11\x9d\xad\x11\xd1\x80\xb4\x00\xc0\x4f\xd4\x30\xc8"

// keyUUID returns the name-based UUID of a key, with SHA-256 as in RFC 9562, B.2. SHA-1 would be
// unsafe, because a sender may choose a part of the key.
func keyUUID(key string) string {
	sum := sha256.Sum256([]byte(namespaceURL + key))
	b := sum[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	text := hex.EncodeToString(b)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
