package forward

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/egress"
)

// Reasons why a whole address of an event is not asked. None quotes it.
var (
	errFetchAddress = errors.New("the value is not an address with a host, without user and fragment")
	errFetchHost    = errors.New("the value is an address at a server that hosts does not name")
)

// fetchHost is a server, or a domain of servers, that a fetch may ask.
type fetchHost struct {
	scheme, name, port string
	below              bool // every host below name
}

// readFetchHost parses an entry of [FetcherConfig].Hosts.
func readFetchHost(s string) (fetchHost, error) {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		scheme, rest = "https", s
	}
	rest, below := strings.CutPrefix(rest, "*.")
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil || scheme != "http" && scheme != "https" || u.Hostname() == "" || u.Host != rest || strings.Contains(rest, "*") {
		return fetchHost{}, fmt.Errorf("hosts: %q is not a host such as api.example, api.example:8443, *.shop.example or http://localhost:9000", s)
	}
	if below && !strings.Contains(u.Hostname(), ".") {
		return fetchHost{}, fmt.Errorf("hosts: %q would allow a whole top-level domain", s)
	}
	return fetchHost{scheme: scheme, name: strings.ToLower(u.Hostname()), port: portOf(u), below: below}, nil
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// matches reports whether an address is at the server.
func (h fetchHost) matches(u *url.URL) bool {
	name := strings.ToLower(u.Hostname())
	if h.below {
		_, found := strings.CutSuffix(name, "."+h.name)
		return found && u.Scheme == h.scheme && portOf(u) == h.port
	}
	return name == h.name && u.Scheme == h.scheme && portOf(u) == h.port
}

// named returns the networks that the entry selects by itself.
func (h fetchHost) named() []netip.Prefix {
	if h.below {
		return nil
	}
	return egress.Named(h.name)
}

// SplitFetch is [SplitAddress] for the address of a fetch. whole means that the address is one expression.
func SplitFetch(address string) (literals, expressions []string, whole bool, err error) {
	t, whole, err := fetchTemplate(address)
	if err != nil {
		return nil, nil, false, err
	}
	for _, p := range t.places {
		expressions = append(expressions, p.expression)
	}
	return t.literals, expressions, whole, nil
}

func fetchTemplate(address string) (t *template, whole bool, err error) {
	if t, err = splitTemplate(address); err != nil {
		return nil, false, err
	}
	if len(t.places) == 1 && t.literals[0] == "" && t.literals[1] == "" {
		return t, true, nil
	}
	return t, false, t.checkPlaces()
}

// readAddress reads the address, its values and the servers.
func (f *Fetcher) readAddress() (errs []error) {
	for _, entry := range f.cfg.Hosts {
		host, err := readFetchHost(entry)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f.hosts = append(f.hosts, host)
	}
	var err error
	if f.template, f.whole, err = fetchTemplate(f.cfg.URL); err != nil {
		return append(errs, err)
	}
	for i := range f.template.places {
		p := &f.template.places[i]
		if p.value = f.cfg.Values[p.expression]; p.value == nil {
			errs = append(errs, errors.New("url: an expression in braces has no value; write a literal brace as %7B or %7D"))
		}
	}
	if f.whole {
		if len(f.cfg.Hosts) == 0 {
			errs = append(errs, errors.New("hosts is missing: the event gives the whole address, so name the servers that it may lead to"))
		}
		return errs
	}
	u, err := targetURL(strings.Join(f.template.literals, "x"))
	switch {
	case err != nil:
		errs = append(errs, err)
	case len(f.cfg.Hosts) == 0:
		f.hosts = []fetchHost{{scheme: u.Scheme, name: strings.ToLower(u.Hostname()), port: portOf(u)}}
	case len(errs) == 0 && !slices.ContainsFunc(f.hosts, func(h fetchHost) bool { return h.matches(u) }):
		errs = append(errs, fmt.Errorf("url: its server %s://%s is not in hosts", u.Scheme, u.Host))
	}
	return errs
}
