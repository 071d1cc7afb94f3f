package providers

import (
	"encoding/binary"
	"math/bits"
)

// blank passes over white space.
func blank(doc []byte, i int) int {
	for i < len(doc) && doc[i] <= ' ' && (doc[i] == ' ' || doc[i] == '\n' || doc[i] == '\t' || doc[i] == '\r') {
		i++
	}
	return i
}

// scanKey passes over a key and its colon; -1 if there is none.
func scanKey(doc []byte, i int) int {
	if i < len(doc) && doc[i] <= ' ' {
		i = blank(doc, i)
	}
	if i >= len(doc) || doc[i] != '"' {
		return -1
	}
	if i = scanText(doc, i); i < 0 {
		return -1
	}
	if i < len(doc) && doc[i] == ':' {
		return i + 1
	}
	if i = blank(doc, i); i >= len(doc) || doc[i] != ':' {
		return -1
	}
	return i + 1
}

// plain are the bytes of a text that stand for themselves.
var plain = func() (out [256]bool) {
	for c := range out {
		out[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return out
}()

// Every byte of a word the same, for looking at eight bytes at once.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// stops sets the high bit of each of eight bytes that does not stand for itself in
// a text: a quote, a backslash or a control character. Borrows reach only the
// bytes above such a one, so the lowest bit is right, and only the lowest is used.
func stops(word uint64) uint64 {
	quotes, escapes, controls := (word^'"'*ones)-ones, (word^'\\'*ones)-ones, word-' '*ones
	return (quotes | escapes | controls) &^ word & highs
}

// scanText passes over the text that begins at i; -1 if it is none.
func scanText(doc []byte, i int) int {
	i++
	for len(doc)-i >= 8 {
		found := stops(binary.LittleEndian.Uint64(doc[i:]))
		if found == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(found) / 8
		if doc[i] == '"' {
			return i + 1
		}
		if i = scanEscape(doc, i); i < 0 {
			return -1
		}
	}
	for i < len(doc) {
		c := doc[i]
		switch {
		case plain[c]:
			i++
		case c == '"':
			return i + 1
		default:
			if i = scanEscape(doc, i); i < 0 {
				return -1
			}
		}
	}
	return -1
}

// scanEscape passes over the escape that begins at i; -1 if it is none.
func scanEscape(doc []byte, i int) int {
	if doc[i] != '\\' || i+1 >= len(doc) {
		return -1
	}
	switch doc[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+5 < len(doc) && isHex(doc[i+2:i+6]) {
			return i + 6
		}
	}
	return -1
}

func isHex(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

// scanNumber passes over the number that begins at i; -1 if it is none.
func scanNumber(doc []byte, i int) int {
	if doc[i] == '-' {
		i++
	}
	if i < len(doc) && doc[i] == '0' {
		i++
	} else if i = digits(doc, i); i < 0 {
		return -1
	}
	return scanFraction(doc, i)
}

// scanFraction passes over the fraction and the exponent that may follow the
// digits of a number; -1 if one is begun and not complete.
func scanFraction(doc []byte, i int) int {
	if i < len(doc) && doc[i] == '.' {
		if i = digits(doc, i+1); i < 0 {
			return -1
		}
	}
	if i < len(doc) && (doc[i] == 'e' || doc[i] == 'E') {
		i++
		if i < len(doc) && (doc[i] == '+' || doc[i] == '-') {
			i++
		}
		return digits(doc, i)
	}
	return i
}

// digits passes over one or more digits; -1 if there is none.
func digits(doc []byte, i int) int {
	start := i
	for len(doc)-i >= 8 {
		// The high bit of a byte is set where it is no digit.
		word := binary.LittleEndian.Uint64(doc[i:]) ^ '0'*ones
		others := ((word&^highs + (0x80-10)*ones) | word) & highs
		if others != 0 {
			i += bits.TrailingZeros64(others) / 8
			if i == start {
				return -1
			}
			return i
		}
		i += 8
	}
	for i < len(doc) && doc[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return -1
	}
	return i
}
