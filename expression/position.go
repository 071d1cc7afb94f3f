package expression

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxName bounds the name of a sequence, in bytes: what the catalogue's own
	// keys may have.
	maxName = 1024
	// maxDigits bounds a number.
	maxDigits = 38
)

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

// Number evaluates to a place in a sequence, as a decimal with one spelling for
// each value, so that comparing is exact. Whole numbers and decimal texts stay
// what they are; a time, as RFC 3339 writes it, becomes its nanoseconds since
// 1970. A fraction that was read as a floating point number is refused, since
// what was written is no longer known.
func (p *Program) Number(in *Input) (string, error) {
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
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < maxExact {
			return strconv.FormatInt(int64(v), 10), nil
		}
	case string:
		if v == "" {
			return "", ErrNull
		}
		if number, ok := decimal(v); ok {
			return number, nil
		}
		if number, ok := nanoseconds(v); ok {
			return number, nil
		}
	}
	return "", ErrType
}

// Whole reports whether a number of [Program.Number] has no fraction.
func Whole(number string) bool {
	_, ok := new(big.Int).SetString(number, 10)
	return ok
}

// decimal gives the one spelling of a decimal: no leading zeros, no zeros at the
// end of a fraction, no minus zero.
func decimal(s string) (string, bool) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if !allDigits(whole) || point && !allDigits(fraction) || len(whole)+len(fraction) > maxDigits {
		return "", false
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		whole += "." + fraction
	}
	if negative && whole != "0" {
		whole = "-" + whole
	}
	return whole, true
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
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
