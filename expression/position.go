package expression

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxName bounds the name of a sequence, in bytes: what the catalogue's own keys
// may have.
const maxName = 1024

// Name evaluates to the name of a sequence: a text of 1 to 1,024 bytes without
// control characters, or a whole number. [ErrNull] is a name that is null or
// empty: events that lack one do not belong together.
func (p *Program) Name(in *Input) (string, error) {
	value, err := p.Value(in)
	if err != nil {
		return "", err
	}
	switch v := value.(type) {
	case nil:
		return "", ErrNull
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case string:
		if v == "" {
			return "", ErrNull
		}
		if len(v) <= maxName && utf8.ValidString(v) && !strings.ContainsFunc(v, unicode.IsControl) {
			return v, nil
		}
	}
	return "", ErrType
}

// Number evaluates to a place in a sequence, as the text of a decimal, never
// rounded: a whole number as it is, a time (RFC 3339) as its nanoseconds since
// 1970. Any other text is given as it is, for the caller to read. A floating point
// number is refused if it may not be what was written.
//
// isTime says that the number is a time.
func (p *Program) Number(in *Input) (number string, isTime bool, err error) {
	value, err := p.Value(in)
	if err != nil {
		return "", false, err
	}
	switch v := value.(type) {
	case nil:
		return "", false, ErrNull
	case int64:
		return strconv.FormatInt(v, 10), false, nil
	case uint64:
		return strconv.FormatUint(v, 10), false, nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < maxExact {
			return strconv.FormatInt(int64(v), 10), false, nil
		}
	case string:
		if v == "" {
			return "", false, ErrNull
		}
		if number, ok := nanoseconds(v); ok {
			return number, true, nil
		}
		return v, false, nil
	}
	return "", false, ErrType
}

// nanoseconds reads a time. Beyond nanoseconds nothing is known of it, and
// before 1970 or after 2200 it is no time of an event.
func nanoseconds(s string) (string, bool) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.UTC().Year() < 1970 || t.UTC().Year() > 2200 {
		return "", false
	}
	if _, fraction, ok := strings.Cut(s, "."); ok && strings.IndexFunc(fraction, notDigit) > 9 {
		return "", false
	}
	return strconv.FormatInt(t.UnixNano(), 10), true
}

func notDigit(r rune) bool { return r < '0' || r > '9' }
