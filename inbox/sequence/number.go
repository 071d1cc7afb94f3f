package sequence

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// MaxDigits bounds a number: PostgreSQL's numeric has room for more, but an index
// has not.
const MaxDigits = 1000

// ErrNumber is wrapped by what [ParseNumber] returns.
var ErrNumber = errors.New("not a decimal number of at most 1000 digits")

// Number is a place in a sequence: an exact decimal. The zero Number is none; it
// is before every other.
type Number struct {
	negative bool
	whole    string // no leading zeros; "0" if there is none
	fraction string // no trailing zeros
}

// ParseNumber reads a decimal: digits, with a sign and a fraction if need be.
// Exponents are refused.
func ParseNumber(text string) (Number, error) {
	rest, negative := strings.CutPrefix(text, "-")
	if !negative {
		rest, _ = strings.CutPrefix(rest, "+")
	}
	whole, fraction, point := strings.Cut(rest, ".")
	if !digits(whole) || point && !digits(fraction) || len(whole)+len(fraction) > MaxDigits {
		return Number{}, ErrNumber
	}
	n := Number{negative: negative, whole: strings.TrimLeft(whole, "0"), fraction: strings.TrimRight(fraction, "0")}
	if n.whole == "" {
		n.whole = "0"
	}
	if n.whole == "0" && n.fraction == "" {
		n.negative = false
	}
	return n, nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// NumberOf is a time as a number: nanoseconds since 1970.
func NumberOf(t time.Time) Number {
	ns := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(int64(time.Second)))
	return fromBig(ns.Add(ns, big.NewInt(int64(t.Nanosecond()))))
}

func fromBig(n *big.Int) Number {
	return Number{negative: n.Sign() < 0, whole: new(big.Int).Abs(n).String()}
}

// IsZero reports whether n is none; the number 0 is one.
func (n Number) IsZero() bool { return n.whole == "" }

// Whole reports whether n is a number without a fraction: only such have
// successors.
func (n Number) Whole() bool { return n.whole != "" && n.fraction == "" }

// String gives the decimal, and nothing for none.
func (n Number) String() string {
	text := n.whole
	if n.fraction != "" {
		text += "." + n.fraction
	}
	if n.negative {
		text = "-" + text
	}
	return text
}

// Compare is negative if n comes before m, 0 if they are the same number, and
// positive if n comes after m.
func (n Number) Compare(m Number) int {
	switch {
	case n.IsZero() || m.IsZero():
		return boolean(m.IsZero()) - boolean(n.IsZero())
	case n.negative != m.negative:
		return boolean(m.negative) - boolean(n.negative)
	case n.negative:
		return m.magnitude(n)
	}
	return n.magnitude(m)
}

func (n Number) magnitude(m Number) int {
	if d := len(n.whole) - len(m.whole); d != 0 {
		return d
	}
	if d := strings.Compare(n.whole, m.whole); d != 0 {
		return d
	}
	return strings.Compare(n.fraction, m.fraction)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Next is the whole number after n.
func (n Number) Next() Number { return n.plus(1) }

// Previous is the whole number before n.
func (n Number) Previous() Number { return n.plus(-1) }

func (n Number) plus(d int64) Number {
	if !n.Whole() {
		panic(fmt.Sprintf("sequence: %q has no neighbours", n.String()))
	}
	b, _ := new(big.Int).SetString(n.String(), 10) // digits, as Whole says
	return fromBig(b.Add(b, big.NewInt(d)))
}
