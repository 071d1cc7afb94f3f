// Package visible makes text safe to display. Values that a sender chose, such as an id, a header
// or a payload, may contain control characters, which a terminal executes, and format characters,
// which reverse or hide the text around them. Oncegate passes everything that it shows to people
// through this package: tables and messages through [Text], JSON through [JSON] or [NewWriter].
package visible

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Hidden reports whether a terminal executes or hides the character instead of showing it: the
// control characters including C1, the format characters including the bidirectional ones, and the
// line and paragraph separators.
func Hidden(c rune) bool {
	return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029'
}

// Text writes hidden characters and invalid UTF-8 bytes as escapes (\n, \x1b, \u202e), and leaves
// everything else unchanged.
func Text(s string) string {
	plain := utf8.ValidString(s)
	for _, c := range s {
		plain = plain && c != utf8.RuneError && !Hidden(c)
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i, c := range s {
		switch {
		case c == utf8.RuneError && s[i] != "\uFFFD"[0]:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\r':
			b.WriteString(`\r`)
		case Hidden(c) && c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case Hidden(c) && c > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, c)
		case Hidden(c):
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// JSON returns the same JSON with hidden characters as \uXXXX. It changes no value, because valid
// JSON has hidden characters outside of strings only as white space, which JSON leaves unchanged.
// It returns text itself if there is nothing to escape.
func JSON(text []byte) []byte {
	from := firstHidden(text)
	if from < 0 {
		return text
	}
	out := append(make([]byte, 0, len(text)+len(text)/8), text[:from]...)
	for i := from; i < len(text); {
		c, n := utf8.DecodeRune(text[i:])
		switch {
		case c == utf8.RuneError && n == 1: // a JSON decoder replaces an invalid byte with this character
			out = append(out, `\ufffd`...)
		case c < 0x7f || !Hidden(c):
			out = append(out, text[i:i+n]...)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
		i += n
	}
	return out
}

// firstHidden returns the position of the first character that JSON escapes, or -1. It skips bytes
// below 0x7f, because strings in valid JSON contain no hidden characters in that range.
func firstHidden(text []byte) int {
	for i := 0; i < len(text); {
		if text[i] < 0x7f {
			i++
			continue
		}
		c, n := utf8.DecodeRune(text[i:])
		if Hidden(c) || c == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// NewWriter returns a writer that passes JSON through [JSON]. Every write must consist of whole
// values. [encoding/json.Encoder] and [log/slog.JSONHandler] write that way.
func NewWriter(w io.Writer) io.Writer { return writer{w} }

type writer struct{ next io.Writer }

func (w writer) Write(text []byte) (int, error) {
	if n, err := w.next.Write(JSON(text)); err != nil {
		return min(n, len(text)), err
	}
	return len(text), nil
}
