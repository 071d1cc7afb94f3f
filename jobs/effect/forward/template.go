package forward

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/oncegate/oncegate/jobs/effect"
)

// Value returns the text that replaces one expression in an address. It must not be empty. Operators see its error,
// so it must not quote the event.
type Value func(call *effect.Call) (string, error)

const (
	// maxValue bounds one value in an address, in bytes.
	maxValue = 1024
	// maxAddress bounds an address with its values, in bytes. Servers should accept at least as much (RFC 9110, 4.1).
	maxAddress = 8000
)

// Reasons why a value does not fit into an address. None quotes the value.
var (
	errValueEmpty   = errors.New("the value is empty")
	errValueLong    = fmt.Errorf("the value is longer than %d bytes", maxValue)
	errValueSlash   = errors.New("the value has a slash or a backslash, which would change the path")
	errValueControl = errors.New("the value has a control character")
	errValueDots    = errors.New("the value would make . or .. a step of the path")
	errAddressLong  = fmt.Errorf("the address would be longer than %d bytes", maxAddress)
)

// template is an address with places for values: a literal, then a value and a literal for each place.
type template struct {
	literals []string
	places   []place
}

// place is the position of a value in an address.
type place struct {
	expression string
	query      bool // in the query, not in the path
	value      Value
}

// SplitAddress returns the expressions in braces of an address, in order, and the literals before, between and after
// them, of which there is one more. The error names the fault of the braces and does not quote the address.
func SplitAddress(address string) (literals, expressions []string, err error) {
	t, err := parseTemplate(address)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range t.places {
		expressions = append(expressions, p.expression)
	}
	return t.literals, expressions, nil
}

var (
	errPlace = errors.New("url: a value can stand in the path and in the query only, never in the scheme, user, host or port")
	errDots  = errors.New("url: with values, . and .. may not be steps of the path")
)

// parseTemplate finds the expressions of an address, in its path and its query.
func parseTemplate(address string) (*template, error) {
	t, err := splitTemplate(address)
	if err != nil {
		return nil, err
	}
	return t, t.checkPlaces()
}

// splitTemplate finds the expressions of an address.
func splitTemplate(address string) (*template, error) {
	literals, expressions, err := effect.SplitBraces(address)
	switch {
	case errors.Is(err, effect.ErrBraceEmpty):
		return nil, fmt.Errorf("url: %w", err)
	case err != nil:
		return nil, fmt.Errorf("url: %w; write a literal brace as %%7B or %%7D", err)
	}
	t := &template{literals: literals}
	for _, text := range expressions {
		t.places = append(t.places, place{expression: text})
	}
	return t, nil
}

// checkPlaces refuses values outside the path and the query.
func (t *template) checkPlaces() error {
	if len(t.places) == 0 {
		return nil
	}
	_, rest, found := strings.Cut(t.literals[0], "://")
	if !found || !strings.ContainsAny(rest, "/?") {
		return errPlace
	}
	query := false
	for i := range t.places {
		query = query || strings.Contains(t.literals[i], "?")
		t.places[i].query = query
	}
	path, _, _ := strings.Cut(strings.Join(t.literals, "x"), "?")
	if hasDotStep(path) {
		return errDots
	}
	return nil
}

// fill returns the address for a call. The error names the expression and quotes nothing of the event.
func (t *template) fill(call *effect.Call) (string, error) {
	var b strings.Builder
	b.WriteString(t.literals[0])
	for i, p := range t.places {
		value, err := p.value(call)
		if err == nil {
			value, err = p.escape(value)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", p.expression, err)
		}
		b.WriteString(value)
		b.WriteString(t.literals[i+1])
	}
	address := b.String()
	if len(address) > maxAddress {
		return "", errAddressLong
	}
	if path, _, _ := strings.Cut(address, "?"); hasDotStep(path) {
		return "", errValueDots
	}
	return address, nil
}

// escape makes a value fit its place: no part of it can end the place or be anything but text. A slash in a path is
// refused although it could be escaped, because many servers and proxies undo the escaping before they read the path.
func (p place) escape(value string) (string, error) {
	switch {
	case value == "":
		return "", errValueEmpty
	case len(value) > maxValue:
		return "", errValueLong
	case p.query:
	case strings.ContainsAny(value, `/\`):
		return "", errValueSlash
	case strings.ContainsFunc(value, unicode.IsControl):
		return "", errValueControl
	}
	return escapeAll(value), nil
}

// escapeAll escapes all but the unreserved characters of RFC 3986, 2.3.
func escapeAll(value string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(value) {
		switch c := value[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&0xf])
		}
	}
	return b.String()
}

// hasDotStep reports whether a step of the path is . or .., escaped or not.
func hasDotStep(path string) bool {
	for step := range strings.SplitSeq(path, "/") {
		if plain, err := url.PathUnescape(step); err == nil && (plain == "." || plain == "..") {
			return true
		}
	}
	return false
}

var _ effect.Addresser = (*Sender)(nil)

// Address implements [effect.Addresser].
func (f *Sender) Address(call *effect.Call) (string, error) {
	if len(f.template.places) == 0 {
		return "", nil
	}
	return f.template.fill(call)
}

// Reaches implements [effect.Addresser].
func (f *Sender) Reaches(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == f.url.Scheme && strings.EqualFold(u.Host, f.url.Host) && u.User == nil && u.Fragment == ""
}

// address returns where a call is sent.
func (f *Sender) address(call *effect.Call) (string, error) {
	switch {
	case call.Address == "" && len(f.template.places) > 0:
		return "", errors.New("the address was not made")
	case call.Address == "":
		return f.url.String(), nil
	case !f.Reaches(call.Address):
		return "", errors.New("the address is another server's")
	}
	return call.Address, nil
}
