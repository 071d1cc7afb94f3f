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

// addsNone reports whether others has every header with the same value. Leaving a header out does not tell the target
// that a request is a dry run.
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

// plain returns the address in one spelling for all addresses that lead to the same place. The expressions in it are
// unchanged.
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

// plainAddress parses an address and returns it as plain does.
func plainAddress(address string) string {
	t, err := parseTemplate(address)
	if err != nil {
		return plainURL(address)
	}
	return t.plain()
}

// plainURL returns one spelling for all addresses that lead to the same place. The default port, the case of the host,
// a trailing slash of the path and the order of the query do not matter.
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
