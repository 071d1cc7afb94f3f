package providers

import (
	"bytes"
	"encoding/hex"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote reads a JSON string that the walker has found well formed. Lone
// surrogates and bytes that are not UTF-8 are refused: no two different texts
// may become the same id.
func unquote(quoted []byte) (string, error) {
	inner := quoted[1 : len(quoted)-1]
	plain := bytes.IndexByte(inner, '\\') < 0
	if plain {
		if !utf8.Valid(inner) {
			return "", errNotText
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
			r := unit(inner[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				if i+6 >= len(inner) || inner[i+1] != '\\' || inner[i+2] != 'u' {
					return "", errNotText
				}
				if r = utf16.DecodeRune(r, unit(inner[i+3:])); r == utf8.RuneError {
					return "", errNotText
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
	}
	if !utf8.Valid(out) {
		return "", errNotText
	}
	return string(out), nil
}

// unit reads four hex digits.
func unit(b []byte) rune {
	var out [2]byte
	if _, err := hex.Decode(out[:], b[:4]); err != nil {
		return utf8.RuneError
	}
	return rune(out[0])<<8 | rune(out[1])
}

// scalar reads a value as an id, type or key: a text, or a whole number as it
// is written (never through a float: ids exceed 2^53). null counts as absent.
func scalar(doc []byte, at span, keep *keeper) (value string, present bool, err error) {
	if !at.present() {
		return "", false, nil
	}
	raw := doc[at.start:at.end]
	switch c := raw[0]; {
	case c == '"':
		inner := raw[1 : len(raw)-1]
		if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
			return keep.bytes(inner), len(inner) > 0, nil
		}
		s, err := unquote(raw)
		return s, err == nil && s != "", err
	case c == 'n':
		return "", false, nil
	case c == '-' || c >= '0' && c <= '9':
		for _, b := range raw {
			if b == '.' || b == 'e' || b == 'E' {
				return "", false, errNotScalar
			}
		}
		return keep.bytes(raw), true, nil
	}
	return "", false, errNotScalar
}
