package expression

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text evaluates to an identifying text: a text unchanged, a number in its canonical form, or true
// or false. 100, 100.00 and 1e2 are one number and one text. It returns [ErrNull] if the value is
// null or empty. It returns [ErrType] for any other value, for a text that is not valid Unicode,
// and for a whole number that JSON wrote with a fraction or an exponent and that a floating-point
// number may have rounded.
func (p *Program) Text(in *Input) (string, error) {
	value, err := p.Value(in)
	if err != nil {
		return "", err
	}
	switch v := value.(type) {
	case nil:
		return "", ErrNull
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case float64:
		if v != math.Trunc(v) || math.Abs(v) < maxExact {
			return strconv.FormatFloat(v+0, 'f', -1, 64), nil // the addition turns -0 into 0
		}
	case string:
		if v == "" {
			return "", ErrNull
		}
		// The JSON decoder replaces invalid Unicode with the replacement character, so two
		// different names could become equal.
		if utf8.ValidString(v) && !strings.ContainsRune(v, utf8.RuneError) {
			return v, nil
		}
	}
	return "", ErrType
}
