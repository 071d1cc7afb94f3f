package expression

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text evaluates to a text that names something: a text as it is, a number in its canonical
// form, or true or false. 100, 100.00 and 1e2 are one number and one text. [ErrNull] is a value that is null or empty.
// [ErrType] is any other value, a text that is not valid Unicode, and a whole number that JSON wrote with a fraction or
// an exponent and that a floating point number may have rounded.
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
			return strconv.FormatFloat(v+0, 'f', -1, 64), nil // the sum makes 0 of -0
		}
	case string:
		if v == "" {
			return "", ErrNull
		}
		// What JSON cannot say in Unicode, it says by the replacement character: two names would be one.
		if utf8.ValidString(v) && !strings.ContainsRune(v, utf8.RuneError) {
			return v, nil
		}
	}
	return "", ErrType
}
