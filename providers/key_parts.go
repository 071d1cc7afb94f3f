package providers

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// KeyFrom makes the key of an operation from its parts, in their order, as the recipe of a source
// makes it from fields with these values. Two lists of parts have one key only if they agree in
// every part. The key is visible ASCII and is as long as its parts make it: the caller of an
// operation sends it, and the receiver refuses what is too long.
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

// shortened keeps a key that was made from parts within limit bytes: a longer one becomes a digest
// of all of it. No part begins like a digest, since a percent sign in a part is escaped.
func shortened(key string, limit int) string {
	if len(key) <= limit {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "%sha256-" + base64.RawURLEncoding.EncodeToString(sum[:])
}
