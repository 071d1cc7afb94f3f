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
