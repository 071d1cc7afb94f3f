package scheme

import (
	"errors"
	"net/url"
	"strings"
)

// component is a part of the request that a message signature covers (RFC 9421, 2).
type component struct {
	identifier string // as the request writes it, which is the signed text
	name       string
	parameter  string // the query parameter that @query-param names, as the request writes it
	wrapped    bool   // parameter bs: each value of the header is a byte sequence
}

// whole returns the names of the components that are covered completely. A component with a
// parameter covers less, or something else.
func (s *signatureInput) whole() []string {
	var out []string
	for i := range s.covered {
		if c := &s.covered[i]; c.parameter == "" && !c.wrapped {
			out = append(out, c.name)
		}
	}
	return out
}

// component parses a component's identifier with its parameters. It refuses parameters that require
// a reserialized structured value (sf, key) or parts of another message (req, tr), and names them
// in the error.
func (r *reader) component() (component, error) {
	start := r.pos
	name, ok := r.quoted()
	if !ok || name != strings.ToLower(name) || name == "" || strings.ContainsAny(name, ` "`) {
		return component{}, errStructured
	}
	c := component{name: name}
	for r.take(';') {
		parameter, ok := r.key()
		if !ok {
			return component{}, errStructured
		}
		switch {
		case parameter == "name" && name == "@query-param" && c.parameter == "" && r.take('='):
			if c.parameter, ok = r.quoted(); !ok || c.parameter == "" {
				return component{}, errStructured
			}
		case parameter == "bs" && !strings.HasPrefix(name, "@") && !c.wrapped:
			c.wrapped = true
		default:
			return component{}, errors.New("covers a component with the parameter " + parameter + ", which is not understood")
		}
	}
	if name == "@query-param" && c.parameter == "" {
		return component{}, errors.New("covers @query-param without a name")
	}
	c.identifier = r.text[start:r.pos]
	return c, nil
}

// queryParam returns a parameter of the query, which must be present exactly once (RFC 9421,
// 2.2.8). It compares and returns names and values in one canonical encoding.
func queryParam(u *url.URL, name string) (string, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", refuse(Malformed, "the query of the address cannot be read")
	}
	found, value := 0, ""
	for key, values := range query {
		if escapeParam(key) == name {
			found += len(values)
			value = values[0]
		}
	}
	if found != 1 {
		return "", refuse(Malformed, "the signature covers a parameter of the query that is not there once")
	}
	return escapeParam(value), nil
}

// escapeParam escapes all bytes except letters, digits and *-._, as forms do, but writes %20 for a
// space.
func escapeParam(s string) string {
	escaped := url.QueryEscape(s) // QueryEscape keeps ~ and escapes *
	return strings.NewReplacer("+", "%20", "%2A", "*", "~", "%7E").Replace(escaped)
}
