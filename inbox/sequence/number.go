package sequence

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// MaxDigits is the most digits that a number may have. PostgreSQL's numeric type can
// store more, but an index entry cannot.
const MaxDigits = 1000

// ErrNumber is wrapped by what [ParseNumber] returns.
var ErrNumber = errors.New("not a decimal number of at most 1000 digits")

// Number is a sequence number: an exact decimal. The zero value means that there is no
// number, and sorts before every number.
type Number struct {
	negative bool
	whole    string // no leading zeros; "0" if there is none
	fraction string // no trailing zeros
}

// ParseNumber parses a decimal: digits with an optional sign and an optional fraction.
// It refuses exponents.
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

// MaxAhead is how far a sender's time may be ahead of the receipt and still
// decide about the order.
const MaxAhead = 24 * time.Hour

// AheadOf reports whether n, as a time in nanoseconds since 1970, is more than [MaxAhead]
// ahead of the receipt.
func (n Number) AheadOf(received time.Time) bool {
	limit := received.Add(MaxAhead)
	ns := new(big.Int).Mul(big.NewInt(limit.Unix()), big.NewInt(int64(time.Second)))
	return n.Compare(fromBig(ns.Add(ns, big.NewInt(int64(limit.Nanosecond()))))) > 0
}

func fromBig(n *big.Int) Number {
	return Number{negative: n.Sign() < 0, whole: new(big.Int).Abs(n).String()}
}

// IsZero reports whether n is no number. It is false for the number 0.
func (n Number) IsZero() bool { return n.whole == "" }

// Whole reports whether n has no fraction. Only whole numbers have successors.
func (n Number) Whole() bool { return n.whole != "" && n.fraction == "" }

// String returns the decimal; empty if n is no number.
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

// Compare returns a negative value if n sorts before m, 0 if they are equal, and a
// positive value if n sorts after m.
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

// Next returns n + 1. n must be whole.
func (n Number) Next() Number { return n.plus(1) }

// Previous returns n - 1. n must be whole.
func (n Number) Previous() Number { return n.plus(-1) }

func (n Number) plus(d int64) Number {
	if !n.Whole() {
		panic(fmt.Sprintf("sequence: %q has no neighbours", n.String()))
	}
	b, _ := new(big.Int).SetString(n.String(), 10) // digits, as Whole says
	return fromBig(b.Add(b, big.NewInt(d)))
}
