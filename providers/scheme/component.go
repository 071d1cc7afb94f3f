package scheme

import (
	"errors"
	"net/url"
	"strings"
)

// component is one thing that a message signature covers (RFC 9421, 2).
type component struct {
	identifier string // as it is written, which is what is signed
	name       string
	parameter  string // the parameter of the query that @query-param names, as it is written
	wrapped    bool   // bs: each value of the header is a byte sequence
}

// whole are the names of the components that are covered as they are: what has a
// parameter is less than the component, or something else.
func (s *signatureInput) whole() []string {
	var out []string
	for i := range s.covered {
		if c := &s.covered[i]; c.parameter == "" && !c.wrapped {
			out = append(out, c.name)
		}
	}
	return out
}

// component reads a component's identifier with its parameters. Those that ask for
// a structured value written anew (sf, key), or for parts of another message (req,
// tr), are refused by name.
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

// queryParam gives one parameter of the query, which must be there once (RFC 9421,
// 2.2.8). Names and values are compared and signed in one spelling.
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

// escapeParam escapes all bytes but letters, digits and *-._, as forms do, with %20
// for a space.
func escapeParam(s string) string {
	escaped := url.QueryEscape(s) // which leaves ~ and escapes *
	return strings.NewReplacer("+", "%20", "%2A", "*", "~", "%7E").Replace(escaped)
}
