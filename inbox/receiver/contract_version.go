package receiver

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Versions are the contract versions that an operation accepts. nil is any call, with a version or
// without.
type Versions []versionRange

type versionRange struct{ first, last int }

var errVersions = errors.New("not versions such as 2, 2-4, >=2, <=3 or 1, 3")

// ParseVersions reads versions: whole numbers from 0 (2), ranges (2-4), everything from or up to one
// (>=2, <=3), or several of these with commas between them.
func ParseVersions(text string) (Versions, error) {
	var out Versions
	for part := range strings.SplitSeq(text, ",") {
		r := versionRange{0, math.MaxInt32}
		var err, err2 error
		switch part = strings.TrimSpace(part); {
		case strings.HasPrefix(part, ">="):
			r.first, err = version(part[2:])
		case strings.HasPrefix(part, "<="):
			r.last, err = version(part[2:])
		default:
			first, last, isRange := strings.Cut(part, "-")
			r.first, err = version(first)
			if r.last = r.first; isRange {
				r.last, err2 = version(last)
			}
		}
		if err != nil || err2 != nil {
			return nil, errVersions
		}
		if r.first > r.last {
			return nil, fmt.Errorf("%d-%d is the wrong way round", r.first, r.last)
		}
		out = append(out, r)
	}
	return out, nil
}

// version reads one version. Its digits are the only spelling: 02 and +2 are none.
func version(text string) (int, error) {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, errVersions
	}
	return int(n), nil
}

// Accept reports whether the version is one of them.
func (v Versions) Accept(version int) bool {
	for _, r := range v {
		if version >= r.first && version <= r.last {
			return true
		}
	}
	return v == nil
}

// String returns the versions in the form that ParseVersions reads.
func (v Versions) String() string {
	parts := make([]string, len(v))
	for i, r := range v {
		switch {
		case r.first == r.last:
			parts[i] = strconv.Itoa(r.first)
		case r.last == math.MaxInt32:
			parts[i] = ">=" + strconv.Itoa(r.first)
		case r.first == 0:
			parts[i] = "<=" + strconv.Itoa(r.last)
		default:
			parts[i] = strconv.Itoa(r.first) + "-" + strconv.Itoa(r.last)
		}
	}
	return strings.Join(parts, ",")
}
