package providers

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// maxID is the longest event id and event type, in bytes.
const maxID = 255

// maxKey is the longest sequence key, in bytes.
const maxKey = 1024

// maxForm limits the fields of a form body.
const maxForm = 1000

// field is a compiled Field.
type field struct {
	Field
	slot int // of JSON or Envelope in its path set
	when int // slot of the path in If
	join []field
}

// compileField registers the paths of a field.
func compileField(f Field, item, envelope *jsonspan.PathSet) field {
	out := field{Field: f}
	switch {
	case f.JSON != "":
		out.slot = item.Add(f.JSON)
	case f.Parent != "":
		out.slot = item.Outer().Add(f.Parent)
	case f.Envelope != "":
		out.slot = envelope.Add(f.Envelope)
	case f.Header != "":
		out.Header = http.CanonicalHeaderKey(f.Header)
	}
	if f.If != "" {
		out.when = item.Add(f.If)
	}
	for _, part := range f.Join {
		out.join = append(out.join, compileField(part, item, envelope))
	}
	return out
}

func compileFields(fs []Field, item, envelope *jsonspan.PathSet) []field {
	var out []field
	for _, f := range fs {
		out = append(out, compileField(f, item, envelope))
	}
	return out
}

var errAmbiguous = errors.New("present twice")

// read returns the field's value. If escape is true, joined parts stay distinguishable.
func (f *field) read(s *source, escape bool) (string, bool, error) {
	if f.If != "" && (s.itemSpans == nil || !s.itemSpans[f.when].Present()) {
		return "", false, nil
	}
	switch {
	case f.Header != "":
		values := s.req.Header[f.Header]
		if len(values) > 1 {
			return "", false, errAmbiguous
		}
		if len(values) == 0 || values[0] == "" {
			return "", false, nil
		}
		return values[0], true, nil
	case f.JSON != "":
		if s.itemSpans == nil {
			return "", false, nil
		}
		return scalar(s.item, s.itemSpans[f.slot], &s.keep)
	case f.Parent != "":
		if s.parentSpans == nil {
			return "", false, nil
		}
		return scalar(s.parent, s.parentSpans[f.slot], &s.keep)
	case f.Envelope != "":
		if s.envelopeSpans == nil {
			return "", false, nil
		}
		return scalar(s.envelope, s.envelopeSpans[f.slot], &s.keep)
	case f.Form != "":
		return one(s.form[f.Form])
	case f.Query != "":
		return one(s.queryValues()[f.Query])
	case f.Literal != "":
		return f.Literal, true, nil
	case len(f.join) > 0:
		return f.joined(s, escape)
	}
	return "", false, nil
}

func one(values []string) (string, bool, error) {
	switch {
	case len(values) > 1:
		return "", false, errAmbiguous
	case len(values) == 0 || values[0] == "":
		return "", false, nil
	}
	return values[0], true, nil
}

func (f *field) joined(s *source, escape bool) (string, bool, error) {
	var short [128]byte
	out := short[:0]
	for i := range f.join {
		part := &f.join[i]
		value, ok, err := part.read(s, escape)
		if err != nil {
			return "", false, err
		}
		if !ok {
			if !part.Optional {
				return "", false, nil
			}
			if !escape {
				continue
			}
		}
		if len(out) > 0 || escape && i > 0 {
			out = append(out, f.With...)
		}
		if escape && part.Literal == "" {
			value = strings.ReplaceAll(value, "%", "%25")
			if f.With != "" && strings.Contains(value, f.With) {
				value = strings.ReplaceAll(value, f.With, "%"+strconv.FormatInt(int64(f.With[0]), 16))
			}
		}
		out = append(out, value...)
	}
	return s.keep.bytes(out), len(out) > 0, nil
}

func (s *source) queryValues() url.Values {
	if s.query == nil {
		s.query = url.Values{}
		if u, err := url.Parse(s.req.URL); err == nil {
			s.query = u.Query()
		}
	}
	return s.query
}

// unstorable returns the reason why a value cannot be stored as an id, a type or a key, or nil.
func unstorable(value string, limit int) error {
	if len(value) > limit {
		return errors.New("longer than " + strconv.Itoa(limit) + " bytes")
	}
	for i := range len(value) {
		if c := value[i]; c < 0x20 || c >= 0x7f {
			return unstorableText(value)
		}
	}
	return nil
}

// unstorableText is unstorable for a value that is not printable ASCII, which is rare.
func unstorableText(value string) error {
	if !utf8.ValidString(value) {
		return jsonspan.ErrNotText
	}
	for _, r := range value {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return errors.New("has control characters")
		}
	}
	return nil
}

// datetimes lists the formats of unit datetime in addition to RFC 3339.
var datetimes = [...]string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05 MST", "Mon, 2 Jan 2006 15:04:05 GMT", "Mon, 2 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05 -07:00"}

// lastInstant is the end of the year 2200, in seconds since 1970. A larger number is not a time.
const lastInstant = 7_289_654_400

// instant parses a time. ok is false if the value is not a time in the unit.
func instant(value, unit string) (time.Time, bool) {
	if unit == "rfc3339" || unit == "datetime" {
		t, err := time.Parse(time.RFC3339Nano, value)
		for i := 0; err != nil && unit == "datetime" && i < len(datetimes); i++ {
			t, err = time.Parse(datetimes[i], value)
		}
		if err != nil || t.Year() < 1970 || t.Year() > 2200 {
			return time.Time{}, false
		}
		return t.UTC(), true
	}
	n, ok := decimal(value)
	if !ok {
		return time.Time{}, false
	}
	seconds, nanoseconds := n, int64(0)
	switch unit {
	case "", "s":
	case "ms":
		seconds, nanoseconds = n/1e3, n%1e3*1e6
	case "us":
		seconds, nanoseconds = n/1e6, n%1e6*1e3
	case "ns":
		seconds, nanoseconds = n/1e9, n%1e9
	default:
		return time.Time{}, false
	}
	if seconds >= lastInstant {
		return time.Time{}, false
	}
	return time.Unix(seconds, nanoseconds).UTC(), true
}

// moment parses the time of an event: an instant, or seconds with decimals. It truncates the
// decimals to nanoseconds.
func moment(value, unit string) (time.Time, bool) {
	t, ok := instant(value, unit)
	if ok || unit != "" && unit != "s" {
		return t, ok
	}
	seconds, decimals, found := strings.Cut(value, ".")
	t, ok = instant(seconds, unit)
	if !found || !ok || strings.Trim(decimals, "0123456789") != "" {
		return time.Time{}, false
	}
	nanoseconds, err := strconv.Atoi((decimals + "000000000")[:9])
	return t.Add(time.Duration(nanoseconds)), err == nil
}

// decimal parses a non-negative integer in its only canonical form: no sign, no leading zero, no
// spaces. If several forms of a time were accepted, a request could have several valid signatures.
func decimal(s string) (int64, bool) {
	if s == "" || len(s) > 19 || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	var n uint64 // 19 digits fit
	for i := range len(s) {
		digit := s[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = n*10 + uint64(digit)
	}
	return int64(n), n <= math.MaxInt64
}

// integer normalises a sequence number that is not a time: an integer of at most 38 digits, without
// leading zeros.
func integer(s string) (string, bool) {
	digits, negative := strings.CutPrefix(s, "-")
	if digits == "" || len(digits) > 38 {
		return "", false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return "", false
		}
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "0", true
	}
	if negative {
		return "-" + digits, true
	}
	return digits, true
}

// parseForm parses a form body. It refuses a form with more than maxForm fields.
func parseForm(body []byte) (url.Values, error) {
	if bytes.Count(body, []byte{'&'}) >= maxForm {
		return nil, errors.New("form has too many fields")
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("not a form")
	}
	return form, nil
}
