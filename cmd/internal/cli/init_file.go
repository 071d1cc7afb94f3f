package cli

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/internal/visible"
)

// file returns the text of the configuration.
func (o *setup) file() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Written by `oncegate init`. docs/reference/configuration.md explains every key, and")
	line("# `oncegate config check` reports every mistake. Secrets are never written here: env:NAME is the")
	line("# environment variable NAME, and file:PATH is a file.")
	line("database:")
	line("  url: env:DATABASE_URL")
	line("")
	line("# Senders reach the public listener, people and programs of yours the admin listener. If a proxy ends TLS in")
	line("# front of them, name its network: trusted_proxies: [10.0.0.0/8].")
	line("listen:")
	line(`  public: ":8080"`)
	line(`  admin: "127.0.0.1:8081"`)
	o.writeTargets(line)
	line("")
	line("sources:")
	for i := range o.sources {
		o.writeSource(line, &o.sources[i])
	}
	return b.String()
}

func (o *setup) writeTargets(line func(string, ...any)) {
	line("")
	if o.forward == "" && o.sql == "" {
		line("# Events are only recorded, because no target was named. This one would send them to your service:")
		line("# targets:")
		line(`#   forward: { kind: forward, url: "https://billing.example/hooks", idempotent: false }`)
		line("# and each source would need: routes: [{ name: forward, types: [\"*\"], target: forward }]")
		return
	}
	line("targets:")
	if o.forward != "" {
		line("  forward:")
		line("    kind: forward")
		line("    url: %s", quoted(o.forward))
		line("    # true: the service ignores a request whose Idempotency-Key it has seen, so a failed attempt is repeated.")
		line("    # false: an attempt whose outcome is unknown is never repeated, and waits for a person.")
		line("    idempotent: %t", o.idempotent)
		switch name := hostName(o.forward); name {
		case "": // an address that is written out needs no permission
		case "localhost":
			line(`    allow: [127.0.0.0/8, "::1/128"]  # private addresses are refused otherwise`)
		default:
			line("    # allow: [10.0.0.0/8]  # the private network that the host name leads to, if it does")
		}
		line("    # sign: [env:FORWARD_SIGN_SECRET]  # signs each request, as Standard Webhooks does")
	}
	if o.sql != "" {
		line("  database:")
		line("    kind: sql")
		line("    call: %s  # a function of one jsonb argument, called in the transaction that marks the effect as done", quoted(o.sql))
	}
}

func (o *setup) writeSource(line func(string, ...any), s *setupSource) {
	spec := s.provider.Spec()
	line("  # %s: %s", spec.Title, o.address(s.name))
	if spec.Docs != "" {
		line("  # %s", spec.Docs)
	}
	line("  %s:", s.name)
	line("    provider: %s", s.name)
	if len(s.secrets) > 0 {
		var items []string
		for _, secret := range s.secrets {
			items = append(items, secret.yaml())
		}
		line("    secrets: [%s]", strings.Join(items, ", "))
	}
	if len(s.settings) > 0 {
		line("    settings:")
		for _, setting := range s.settings {
			line("      # %s", oneLine(setting.spec.About))
			values := make([]string, len(setting.values))
			for i, value := range setting.values {
				values[i] = quoted(value)
			}
			text := strings.Join(values, ", ")
			if len(values) > 1 {
				text = "[" + text + "]"
			}
			line("      %s: %s", setting.spec.Name, text)
		}
	}
	if o.public != "" {
		line("    external_url: %s", quoted(o.address(s.name)))
	}
	var routes []string
	if o.forward != "" {
		routes = append(routes, `      - { name: forward, types: ["*"], target: forward }`)
	}
	if o.sql != "" {
		routes = append(routes, `      - { name: database, types: ["*"], target: database }`)
	}
	if len(routes) > 0 {
		line("    routes:")
		line("%s", strings.Join(routes, "\n"))
	}
}

// yaml returns the reference in the form of the file.
func (s setupSecret) yaml() string {
	scheme, rest, _ := strings.Cut(s.reference, ":")
	if s.name == "" && scheme == "env" {
		return s.reference
	}
	if s.name == "" {
		return "{ " + scheme + ": " + quoted(rest) + " }"
	}
	return "{ " + scheme + ": " + quoted(rest) + ", name: " + s.name + " }"
}

// quoted returns a text as a string of YAML, which every string of JSON is.
func quoted(text string) string {
	var b strings.Builder
	encoder := json.NewEncoder(visible.NewWriter(&b))
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// hostName returns the host name of an address, or "" if it has an IP address instead.
func hostName(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" { // a reference to the address
		return "unknown"
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}
