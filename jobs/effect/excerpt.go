package effect

import (
	"strings"
	"unicode/utf8"
)

// MaxExcerpt bounds what is kept of what a target said, in bytes.
const MaxExcerpt = 2048

// Clean makes what a target said storable: valid UTF-8 without NUL, at most n
// bytes, cut at a character.
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
