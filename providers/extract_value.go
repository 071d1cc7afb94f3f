package providers

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

var errNotScalar = errors.New("neither a text nor a whole number")

// scalar reads a value as an id, type or key: a text, or a whole number as written. It never
// converts a number to a float, because ids exceed 2^53. null counts as absent.
func scalar(doc []byte, at jsonspan.Span, keep *keeper) (value string, present bool, err error) {
	if !at.Present() {
		return "", false, nil
	}
	raw := at.Of(doc)
	switch c := raw[0]; {
	case c == '"':
		inner := raw[1 : len(raw)-1]
		if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
			return keep.bytes(inner), len(inner) > 0, nil
		}
		s, err := jsonspan.Unquote(raw)
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
