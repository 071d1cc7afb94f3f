package providers

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// KeyFrom returns the key of an operation with these parts, in their order. The recipe of a source
// makes the same key from fields with these values. Two lists of parts have the same key only if
// all parts are equal. The key is visible ASCII and its length is not limited: the caller of an
// operation sends it, and the receiver refuses a key that is too long.
func KeyFrom(parts ...string) string {
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteByte(':')
		}
		escapeKey(&b, part)
	}
	return b.String()
}

// shortened limits a key that was made from parts to limit bytes: it replaces a longer one by a
// digest of the whole key. A part cannot look like a digest, because percent signs in parts are
// escaped.
func shortened(key string, limit int) string {
	if len(key) <= limit {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "%sha256-" + base64.RawURLEncoding.EncodeToString(sum[:])
}
