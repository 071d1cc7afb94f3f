package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// warn collects warnings about valid settings that cannot be intended, because the configuration
// loads but then does nothing.
func (r *reader) warn(cfg *Config, now time.Time) {
	r.warnings = append(r.warnings, bufferWarnings(cfg)...)
	for _, t := range cfg.Targets {
		addresses := []struct{ key, url string }{{"smtp", t.SMTP}}
		if t.Kind == KindPublish {
			for _, host := range t.Broker().Address.Hosts {
				addresses = append(addresses, struct{ key, url string }{"url", "broker://" + host})
			}
		} else {
			addresses = append(addresses, struct{ key, url string }{"url", t.URL})
		}
		if t.Probe != nil {
			addresses = append(addresses, struct{ key, url string }{"probe.url", t.Probe.URL})
		}
		if t.TestURL != "" {
			addresses = append(addresses, struct{ key, url string }{"test_url", t.TestURL})
		}
		if t.DryRun != nil {
			addresses = append(addresses, struct{ key, url string }{"dry_run.url", t.DryRun.URL})
		}
		for _, a := range addresses {
			if host, why := unreachable(a.url); why != "" {
				r.warnings = append(r.warnings, fmt.Sprintf("targets.%s.%s: %s is %s, which no target may be: "+
					"every attempt fails, and allow does not permit it; name another host", t.Name, a.key, visible(host), why))
			}
		}
	}
	r.warnTenants(cfg)
	r.warnListen(cfg.Listen)
	r.warnTargets(cfg.Targets)
	r.warnAccounts(cfg)
	for _, s := range cfg.Sources {
		if ended := allEnded(s.AllSecrets(), now); !ended.IsZero() {
			r.warnings = append(r.warnings, fmt.Sprintf("sources.%s: its last secret expired at %s: "+
				"every delivery is refused; add the current secret or move until", s.Name, ended.Format(time.RFC3339)))
		}
		for _, c := range s.Credentials {
			if ended := allEnded(c.Secrets, now); !ended.IsZero() {
				r.warnings = append(r.warnings, fmt.Sprintf("sources.%s.credentials.%s: its last secret expired at %s: "+
					"its calls are refused; add the current secret or move until", s.Name, c.Name, ended.Format(time.RFC3339)))
			}
		}
		r.warnTypes(s)
		for _, route := range s.Routes {
			if route.Target != nil && route.Target.Kind == KindNoop {
				r.warnings = append(r.warnings, fmt.Sprintf("sources.%s.routes.%s: its target %s is of kind noop: "+
					"its effects are recorded as done, and nothing happens; name another target unless you only record events", s.Name, route.Name, route.Target.Name))
			}
			if route.Fetch == nil {
				continue
			}
			if host, why := unreachable(route.Fetch.URL); why != "" {
				r.warnings = append(r.warnings, fmt.Sprintf("sources.%s.routes.%s.fetch.url: %s is %s, which no fetch may ask: "+
					"every fetch fails, and allow does not permit it; name another host", s.Name, route.Name, visible(host), why))
			}
		}
		if s.Shadow {
			r.warnings = append(r.warnings, fmt.Sprintf("sources.%s: it is in shadow mode: its events are recorded, "+
				"and none of their effects is carried out; remove shadow when it is to take over", s.Name))
		}
		if len(s.Routes) == 0 {
			r.warnings = append(r.warnings, fmt.Sprintf("sources.%s: it has no routes: its events are recorded, "+
				"and nothing is done with them; add a route, or set ONCEGATE_FORWARD_URL if the source comes from the environment", s.Name))
		}
	}
}

// WarningsOf returns the warnings about one source.
func (c *Config) WarningsOf(source string) []string {
	out := []string{}
	for _, warning := range c.Warnings {
		if at, ok := strings.CutPrefix(warning, "sources."+source); ok && (at[0] == '.' || at[0] == ':') {
			out = append(out, warning)
		}
	}
	return out
}

// warnListen warns of proxies that could be anybody: X-Forwarded-For decides which peer a limit, an
// allow list and a refusal count.
func (r *reader) warnListen(l Listen) {
	for _, p := range l.TrustedProxies {
		if p.Bits() == 0 {
			r.warnings = append(r.warnings, fmt.Sprintf("listen.trusted_proxies: %s trusts every peer: "+
				"anybody can claim another address in X-Forwarded-For, and no limit per peer holds; name the networks of your proxies", p))
		}
	}
}

// credentialForm matches names of headers whose values are secrets.
var credentialForm = regexp.MustCompile(`(?i)(^authorization$|^cookie$|token|secret|password|api-?key|credential)`)

// warnTargets warns of secrets that are written into the file, where everybody who reads it sees them.
func (r *reader) warnTargets(all []*Target) {
	for _, t := range all {
		for _, key := range []string{"headers", "probe.headers", "dry_run.headers"} {
			at := t.node
			for step := range strings.SplitSeq(key, ".") {
				at = at.Member(step)
			}
			for _, header := range at.Members() {
				if credentialForm.MatchString(header.Name()) && !isReference(header.Value()) {
					r.warnings = append(r.warnings, fmt.Sprintf("targets.%s.%s.%s: its value is written in the file: "+
						"move it to the environment or a file, and write env:NAME or file:PATH", t.Name, key, header.Name()))
				}
			}
		}
	}
}

// warnAccounts warns of passwords in the addresses of brokers that are written into the file.
func (r *reader) warnAccounts(cfg *Config) {
	warn := func(where string, n *yamltree.Node, address string) {
		if text, _ := n.Text(); text == "" || isReference(text) {
			return
		}
		if _, _, password, err := broker.ParseAddress(address); err == nil && password != "" {
			r.warnings = append(r.warnings, where+": its password is written in the file: "+
				"move the address to the environment or a file, and write env:NAME or file:PATH")
		}
	}
	for _, t := range cfg.Targets {
		if t.Kind == KindPublish {
			warn("targets."+t.Name+".url", t.node.Member("url"), t.URL)
		}
	}
	for _, s := range cfg.Sources {
		if s.From != nil {
			at := s.node.Member("from").Member("url")
			text, _ := at.Text()
			warn("sources."+s.Name+".from.url", at, text)
		}
	}
}

// unreachable returns the host of an address and the reason why no connection to it is ever
// allowed. The reason is "" if the host is a name that must be resolved first.
func unreachable(address string) (host, why string) {
	u, err := url.Parse(address)
	if err != nil {
		return "", ""
	}
	host = strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if slices.Contains([]string{"metadata.google.internal", "metadata.goog"}, host) {
		return host, "a metadata service"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "", ""
	}
	return host, egress.Forbidden(addr)
}

// allEnded returns when the last of the secrets expired, or zero if one is still valid or there are
// none.
func allEnded(secrets []Reference, now time.Time) time.Time {
	var last time.Time
	for _, s := range secrets {
		if s.Until.IsZero() || s.Until.After(now) {
			return time.Time{}
		}
		if s.Until.After(last) {
			last = s.Until
		}
	}
	return last
}
