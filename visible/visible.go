// Package visible makes text safe to show. What a sender chose, as an id, a header or a
// payload, may hold control characters, which a terminal obeys, and format characters,
// which reverse or hide the text around them. Everything that Oncegate shows to people goes
// through here: tables and messages through [Text], JSON through [JSON] or [NewWriter].
package visible

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Hidden reports whether a terminal obeys the character, or hides it, instead of showing
// it: the control characters, C1 among them, the format characters, which the bidirectional ones
// belong to, and the line and paragraph separators.
func Hidden(c rune) bool {
	return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029'
}

// Text writes hidden characters and bytes that are no text as escapes (\n, \x1b, \u202e),
// and leaves everything else as it is.
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

// JSON gives the same JSON with hidden characters as \uXXXX. It changes no value: outside
// of texts valid JSON has none of them but white space, which stays. It returns text itself
// where there is nothing to escape.
func JSON(text []byte) []byte {
	from := firstHidden(text)
	if from < 0 {
		return text
	}
	out := append(make([]byte, 0, len(text)+len(text)/8), text[:from]...)
	for i := from; i < len(text); {
		c, n := utf8.DecodeRune(text[i:])
		switch {
		case c == utf8.RuneError && n == 1: // what a reader of JSON makes of it
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

// firstHidden finds the first character that JSON escapes, or -1. Of the first 127
// characters valid JSON holds no hidden ones inside texts.
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

// NewWriter gives a writer that passes JSON on through [JSON]. Every write must be whole
// values, as those of [encoding/json.Encoder] and [log/slog.JSONHandler] are.
func NewWriter(w io.Writer) io.Writer { return writer{w} }

type writer struct{ next io.Writer }

func (w writer) Write(text []byte) (int, error) {
	if n, err := w.next.Write(JSON(text)); err != nil {
		return min(n, len(text)), err
	}
	return len(text), nil
}
