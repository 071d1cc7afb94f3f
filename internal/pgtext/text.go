// Package pgtext prepares text from outside for storage in PostgreSQL columns.
package pgtext

import (
	"strings"
	"unicode/utf8"
)

// Clean returns s as valid UTF-8 without NUL, which PostgreSQL can store, cut at a character
// boundary to at most n bytes. It replaces invalid bytes and NUL with U+FFFD.
func Clean(s string, n int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Storable reports whether PostgreSQL can store the text in a bounded column: it is 1 to 255 bytes of UTF-8 without NUL.
// Providers check this too; the gate must not depend on it, since one row that cannot be stored fails its whole group.
func Storable(s string) bool {
	return len(s) >= 1 && len(s) <= 255 && strings.ToValidUTF8(s, "") == s && !strings.ContainsRune(s, 0)
}
