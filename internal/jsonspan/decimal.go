package jsonspan

import (
	"bytes"
	"math"
	"strconv"
)

// Limits for writing a decimal in full. Decimal writes a number beyond them with an exponent, so
// that a short number in a document never becomes a long one.
const (
	longestInteger  = 21 // digits
	longestFraction = 6  // zeros after the point
)

// maxExponent is the largest exponent, positive or negative, that Decimal reads. A number with a
// larger one keeps its spelling, and is compared by its spelling.
const maxExponent = math.MaxInt32

// Decimal returns the one spelling of a JSON number: 100, 100.00 and 1e2 all become 100. The value
// is exact, whatever its size, because Decimal uses no float. The result is at most a few bytes
// longer than the number. A number whose exponent is beyond ±2^31 keeps its spelling.
func Decimal(number []byte) []byte {
	rest, negative := bytes.CutPrefix(number, []byte("-"))
	mantissa, exponent := rest, int64(0)
	if i := bytes.IndexAny(rest, "eE"); i >= 0 {
		var err error
		// strconv accepts a sign and any number of leading zeros.
		if exponent, err = strconv.ParseInt(string(rest[i+1:]), 10, 64); err != nil || exponent > maxExponent || exponent < -maxExponent {
			return number
		}
		mantissa = rest[:i]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := append(append(make([]byte, 0, len(mantissa)), whole...), fraction...)
	point := int64(len(whole)) + exponent // how many of the digits are before the point
	trimmed := bytes.TrimLeft(digits, "0")
	point -= int64(len(digits) - len(trimmed))
	if digits = bytes.TrimRight(trimmed, "0"); len(digits) == 0 {
		return []byte("0")
	}
	out := make([]byte, 0, len(number)+8)
	if negative {
		out = append(out, '-')
	}
	return appendDecimal(out, digits, point)
}

// appendDecimal appends 0.<digits> × 10^point. The digits neither begin nor end with a zero.
func appendDecimal(out, digits []byte, point int64) []byte {
	n := int64(len(digits))
	switch {
	case point >= n && point <= longestInteger:
		out = append(out, digits...)
		return append(out, bytes.Repeat([]byte("0"), int(point-n))...)
	case point > 0 && point < n:
		out = append(append(out, digits[:point]...), '.')
		return append(out, digits[point:]...)
	case point <= 0 && point >= -longestFraction:
		out = append(append(out, '0', '.'), bytes.Repeat([]byte("0"), int(-point))...)
		return append(out, digits...)
	}
	out = append(out, digits[0])
	if n > 1 {
		out = append(append(out, '.'), digits[1:]...)
	}
	return strconv.AppendInt(append(out, 'e'), point-1, 10)
}
