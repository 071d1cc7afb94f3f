package expression

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxName limits the name of a sequence, in bytes. The catalogue's own keys have the same limit.
const maxName = 1024

// Name evaluates to the name of a sequence: a text of 1 to 1,024 bytes without control characters,
// or a whole number. It returns [ErrNull] if the name is null or empty, because events without a
// name do not belong to one sequence.
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

// Number evaluates to a position in a sequence, as decimal text that is never rounded: a whole
// number unchanged, a time (RFC 3339) as its nanoseconds since 1970. It returns any other text
// unchanged, for the caller to parse. It accepts a floating-point number only if that is a whole
// number below 2^53, because any other may have been rounded.
//
// isTime is true if the number is a time.
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

// nanoseconds parses a time. It refuses a time with more than nine fractional digits, and one
// before 1970 or after 2200, which cannot be the time of an event.
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
