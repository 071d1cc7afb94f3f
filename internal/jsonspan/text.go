package jsonspan

import (
	"bytes"
	"encoding/hex"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote decodes a string that [PathSet.Walk] has found well formed. It returns [ErrNotText] for
// lone surrogates and bytes that are not UTF-8, because two different strings must not become the
// same id.
func Unquote(quoted []byte) (string, error) {
	inner := quoted[1 : len(quoted)-1]
	plain := bytes.IndexByte(inner, '\\') < 0
	if plain {
		if !utf8.Valid(inner) {
			return "", ErrNotText
		}
		return string(inner), nil
	}
	out := make([]byte, 0, len(inner))
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			out = append(out, inner[i])
			continue
		}
		i++
		switch c := inner[i]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := CodeUnit(inner[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				if i+6 >= len(inner) || inner[i+1] != '\\' || inner[i+2] != 'u' {
					return "", ErrNotText
				}
				if r = utf16.DecodeRune(r, CodeUnit(inner[i+3:])); r == utf8.RuneError {
					return "", ErrNotText
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
	}
	if !utf8.Valid(out) {
		return "", ErrNotText
	}
	return string(out), nil
}

// CodeUnit returns the UTF-16 code unit that the four hex digits of an escape encode.
func CodeUnit(b []byte) rune {
	var out [2]byte
	if _, err := hex.Decode(out[:], b[:4]); err != nil {
		return utf8.RuneError
	}
	return rune(out[0])<<8 | rune(out[1])
}

// appendText appends a string as RFC 8785 does: it escapes only the characters that need it.
func appendText[T string | []byte](out []byte, s T) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\b':
			out = append(out, '\\', 'b')
		case c == '\f':
			out = append(out, '\\', 'f')
		case c == '\n':
			out = append(out, '\\', 'n')
		case c == '\r':
			out = append(out, '\\', 'r')
		case c == '\t':
			out = append(out, '\\', 't')
		case c < 0x20:
			out = append(out, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
