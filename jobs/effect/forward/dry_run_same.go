package forward

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

func keyHeader(of *Config) string { return cmp.Or(of.KeyHeader, DefaultKeyHeader) }

func method(of *Config) string { return cmp.Or(of.Method, http.MethodPost) }

// addsNone reports whether every header stands among the others with the same value. A header that is left out tells
// nobody that nothing is meant to happen.
func addsNone(headers, others map[string]string) bool {
	for name, value := range headers {
		same := false
		for other, given := range others {
			same = same || strings.EqualFold(name, other) && strings.TrimSpace(value) == strings.TrimSpace(given)
		}
		if !same {
			return false
		}
	}
	return true
}

// plain is the address in the one spelling of all that lead to the same place, with the expressions in it as they
// are written.
func (t *template) plain() string {
	var address strings.Builder
	for i, literal := range t.literals {
		address.WriteString(literal)
		if i < len(t.places) {
			address.WriteString(escapeAll("{" + t.places[i].expression + "}"))
		}
	}
	return plainURL(address.String())
}

// plainAddress is plain of an address that is still to be read.
func plainAddress(address string) string {
	t, err := parseTemplate(address)
	if err != nil {
		return plainURL(address)
	}
	return t.plain()
}

// plainURL gives addresses that lead to the same place one spelling: the default port, the case of the host, a slash at
// the end of the path and the order of the query do not count.
func plainURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	steps := slices.DeleteFunc(strings.Split(u.Path, "/"), func(step string) bool { return step == "" })
	return u.Scheme + "://" + net.JoinHostPort(host, port) + "/" + strings.Join(steps, "/") + "?" + u.Query().Encode()
}
