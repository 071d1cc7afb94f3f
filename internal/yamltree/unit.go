package yamltree

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var durationUnits = []struct {
	suffix string
	unit   time.Duration
}{
	{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute},
	{"h", time.Hour}, {"d", 24 * time.Hour}, {"w", 7 * 24 * time.Hour},
}

// longestDuration is the most bytes that the text of a duration may have.
const longestDuration = 64

var (
	errDuration = errors.New("not a duration such as 500ms, 10s, 1h30m or 90d")
	numberForm  = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
)

// ParseDuration parses a sequence of numbers with the units ms, s, m, h, d (24 hours) and w (7
// days), such as 90d, 1h30m or 1.5m. The result must be a whole number of milliseconds.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" || len(text) > longestDuration {
		return 0, errDuration
	}
	sum := new(big.Rat)
	for rest := text; rest != ""; {
		number := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789."))]
		rest = rest[len(number):]
		suffix := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))]
		rest = rest[len(suffix):]
		unit := time.Duration(0)
		for _, u := range durationUnits {
			if u.suffix == suffix {
				unit = u.unit
			}
		}
		if unit == 0 || !numberForm.MatchString(number) {
			return 0, errDuration
		}
		n, _ := new(big.Rat).SetString(number)
		sum.Add(sum, n.Mul(n, new(big.Rat).SetInt64(int64(unit))))
	}
	if sum.Cmp(new(big.Rat).SetInt64(math.MaxInt64)) > 0 {
		return 0, errors.New("longer than 292 years")
	}
	if !sum.IsInt() || sum.Num().Int64()%int64(time.Millisecond) != 0 {
		return 0, errors.New("not a whole number of milliseconds")
	}
	return time.Duration(sum.Num().Int64()), nil
}

// PositiveDuration is like [ParseDuration] but rejects zero.
func PositiveDuration(text string) (time.Duration, error) {
	d, err := ParseDuration(text)
	if err == nil && d == 0 {
		err = errors.New("must be longer than zero")
	}
	return d, err
}

// FormatDuration is the inverse of [ParseDuration]. It uses the largest units possible up to days.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		suffix string
		unit   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := d / u.unit; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.suffix)
			d -= n * u.unit //nolint:durationcheck // n is a count
		}
	}
	return b.String()
}

var sizeUnits = []struct {
	suffix string
	unit   int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1},
}

// ParseSize parses a number of bytes, such as 512, 64KiB, 1MiB or 2MB.
func ParseSize(text string) (int64, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	if err == nil {
		for _, u := range sizeUnits {
			if u.suffix == strings.TrimSpace(text[digits:]) && n <= math.MaxInt64/u.unit {
				return n * u.unit, nil
			}
		}
	}
	return 0, errors.New("not a size such as 512B, 64KiB or 1MiB")
}

// PositiveSize is like [ParseSize] but rejects zero.
func PositiveSize(text string) (int64, error) {
	n, err := ParseSize(text)
	if err == nil && n == 0 {
		err = errors.New("must be more than zero")
	}
	return n, err
}

// FormatSize formats a number of bytes for [ParseSize], in the largest binary unit of which it is a
// whole multiple.
func FormatSize(n int64) string {
	for _, u := range []struct {
		suffix string
		unit   int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n != 0 && n%u.unit == 0 {
			return strconv.FormatInt(n/u.unit, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
