package jsonspan

import (
	"encoding/binary"
	"math/bits"
)

// SkipBlank skips white space. Most calls find none.
func SkipBlank(doc []byte, i int) int {
	if uint(i) < uint(len(doc)) && doc[i] <= ' ' {
		return blanks(doc, i)
	}
	return i
}

func blanks(doc []byte, i int) int {
	for i >= 0 && i < len(doc) && (doc[i] == ' ' || doc[i] == '\n' || doc[i] == '\t' || doc[i] == '\r') {
		i = spaces(doc, i+1)
	}
	return i
}

// spaces skips spaces, eight at a time because indented documents contain many.
func spaces(doc []byte, i int) int {
	for i >= 0 && i <= len(doc)-8 {
		if others := binary.LittleEndian.Uint64(doc[i:]) ^ ' '*ones; others != 0 {
			return i + bits.TrailingZeros64(others)/8
		}
		i += 8
	}
	return i
}

// scanKey returns the position after a key and its colon, or -1 if there is none.
func scanKey(doc []byte, i int) int {
	if i = SkipBlank(doc, i); i >= len(doc) || doc[i] != '"' {
		return -1
	}
	if i = scanText(doc, i); i < 0 {
		return -1
	}
	if i = SkipBlank(doc, i); i >= len(doc) || doc[i] != ':' {
		return -1
	}
	return i + 1
}

// plain marks the bytes that a string contains without an escape.
var plain = func() (out [256]bool) {
	for c := range out {
		out[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return out
}()

// Constants for processing eight bytes of a word at once: ones has 1 in every byte, highs 0x80.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// stops sets the high bit of each of the eight bytes that ends a run of plain bytes in a string: a
// quote, a backslash or a control character. Quotes and control characters are the bytes that are
// at most 32 after their second bit is flipped. A borrow affects only the bytes above such a byte,
// so only the lowest marked byte is reliable.
func stops(word uint64) uint64 {
	return (((word ^ 2*ones) - 33*ones) | ((word ^ '\\'*ones) - ones)) &^ word & highs
}

// nonDigits sets the high bit of each of the eight bytes that is not a digit. As in stops, only the
// lowest marked byte is reliable.
func nonDigits(word uint64) uint64 {
	word ^= '0' * ones
	return ((word + (0x80-10)*ones) | word) & highs
}

// first returns the index, from 0 to 7, of the lowest marked byte. It uses a switch that the
// processor can predict, so that execution continues speculatively; with a computed index the
// processor would have to wait. At least one byte must be marked.
func first(marks uint64) int {
	switch bits.TrailingZeros64(marks) / 8 {
	case 0:
		return 0
	case 1:
		return 1
	case 2:
		return 2
	case 3:
		return 3
	case 4:
		return 4
	case 5:
		return 5
	case 6:
		return 6
	}
	return 7
}

// scanText returns the end of the string that begins at i, or -1 if there is none.
func scanText(doc []byte, i int) int {
	i++
	for {
		for i >= 0 && i <= len(doc)-8 {
			if found := stops(binary.LittleEndian.Uint64(doc[i:])); found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		for i < len(doc) && plain[doc[i]] { // fewer than eight bytes remain, or a byte needs a closer look
			i++
		}
		if i >= len(doc) {
			return -1
		}
		if doc[i] == '"' {
			return i + 1
		}
		if i = scanEscape(doc, i); i < 0 {
			return -1
		}
	}
}

// scanEscape returns the end of the escape that begins at i, or -1 if there is none.
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

// scanNumber returns the end of the number that begins at i, or -1 if there is none.
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

// scanFraction returns the end of the fraction and the exponent that may follow the digits of a
// number, or -1 if one of them is incomplete.
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

// digits returns the end of one or more digits, or -1 if there are none.
func digits(doc []byte, i int) int {
	start := i
	for i >= 0 && i <= len(doc)-8 {
		if others := nonDigits(binary.LittleEndian.Uint64(doc[i:])); others != 0 {
			i += bits.TrailingZeros64(others) / 8
			break
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

// scanLiteral returns the end of true, false or null, or -1 if there is none.
func scanLiteral(doc []byte, i int) int {
	switch rest := doc[i:]; {
	case len(rest) >= 4 && (string(rest[:4]) == "true" || string(rest[:4]) == "null"):
		return i + 4
	case len(rest) >= 5 && string(rest[:5]) == "false":
		return i + 5
	}
	return -1
}
