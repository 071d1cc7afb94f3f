// Package pgtext makes texts that came from outside fit for a column of PostgreSQL.
package pgtext

import (
	"strings"
	"unicode/utf8"
)

// Clean gives what PostgreSQL can store of s: valid UTF-8 without NUL, at most n bytes, cut at
// a character. Whatever is neither becomes U+FFFD.
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
