package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// Console configures the console and its logins.
type Console struct {
	// URL is the address at which browsers reach the private listener, without a path. Empty means
	// a loopback address.
	URL string

	// OIDC configures logins at an OpenID Connect provider. Nil disables them.
	OIDC *OIDC

	// Off disables the console. The console is enabled by default and shows nothing without a
	// login.
	Off bool

	// Redact lists members of payloads that the console masks until an authorized person reveals
	// them: names, which apply at any depth, and paths from the root, joined by dots. The redact
	// list of the source applies too.
	Redact []string
}

// OIDC configures logins at an OpenID Connect provider, and what people may do after such a login.
type OIDC struct {
	// Issuer is the provider's address as it appears in identity tokens.
	Issuer string
	// ClientID identifies this installation to the provider, and ClientSecret authenticates it. A
	// public client has no secret.
	ClientID     string
	ClientSecret *Reference
	// Scopes are requested in addition to openid. They default to email.
	Scopes []string
	// Claim is the claim of the identity token that determines a person's role. It defaults to
	// groups.
	Claim string
	// Roles are in the order of the file. The first role that matches a person applies.
	Roles []Role
	// Allow lists private networks in which the provider may be.
	Allow []netip.Prefix
}

// Role is the access of people who have one value of the claim.
type Role struct {
	Value  string
	Scopes []string
	// Tenant restricts the role to one tenant's data. Empty means all tenants.
	Tenant string
}

// Secret returns the client's secret, or "".
func (o *OIDC) Secret() string {
	if o.ClientSecret == nil {
		return ""
	}
	return string(o.ClientSecret.secret.Value)
}

// AccessScopes returns the scopes of the console and the API, from the least access to the most.
func AccessScopes() []string { return []string{"read-metadata", "read-payload", "operate", "admin"} }

// console reads the section console. Call it after the tenants are read, because roles name them.
func (r *reader) console(cfg *Config, n *yamltree.Node) {
	enabled := true
	n.Fields(map[string]func(*yamltree.Node){
		"enabled": yamltree.Bool(&enabled),
		"redact":  yamltree.List(&cfg.Console.Redact, memberPath),
		"url":     r.reference(&cfg.Console.URL, consoleURL),
		"oidc":    func(n *yamltree.Node) { cfg.Console.OIDC = r.oidc(cfg, n) },
	})
	cfg.Console.Off = !enabled
}

// checkConsole checks what depends on the whole section and the environment.
func (r *reader) checkConsole(cfg *Config) {
	if cfg.Console.OIDC != nil && cfg.Console.URL == "" && r.sound("console.url") {
		r.report.Add("console.url: missing: the OpenID Connect provider sends the browser back there, such as https://oncegate.example")
	}
}

func (r *reader) oidc(cfg *Config, n *yamltree.Node) *OIDC {
	o := &OIDC{Scopes: []string{"email"}, Claim: "groups"}
	n.Fields(map[string]func(*yamltree.Node){
		"issuer":    r.reference(&o.Issuer, issuer),
		"client_id": r.reference(&o.ClientID, oneWord),
		"client_secret": func(n *yamltree.Node) {
			if ref, ok := r.secret(n); ok {
				o.ClientSecret = &ref
			}
		},
		"scopes": yamltree.List(&o.Scopes, oneWord),
		"claim":  yamltree.Value(&o.Claim, oneWord),
		"allow":  yamltree.List(&o.Allow, prefix),
		"roles":  func(n *yamltree.Node) { o.Roles = roles(cfg, n) },
	})
	for _, required := range []struct{ key, why string }{
		{"issuer", "issuer is missing: the provider's address, such as https://login.example"},
		{"client_id", "client_id is missing: what the provider knows this installation by"},
		{"roles", "roles is missing: which values of the claim may do what; whoever has none is not logged in"},
	} {
		if n.Lacks(required.key) {
			n.Fail("%s", required.why)
		}
	}
	return o
}

func roles(cfg *Config, n *yamltree.Node) []Role {
	var out []Role
	for _, member := range n.Members() {
		role := Role{Value: member.Name()}
		member.Fields(map[string]func(*yamltree.Node){
			"scopes": yamltree.List(&role.Scopes, yamltree.OneOf(AccessScopes()...)),
			"tenant": yamltree.Value(&role.Tenant, cfg.tenantName),
		})
		if len(role.Scopes) == 0 && member.Sound() {
			member.Fail("scopes is missing: what people with this value may do: %s", strings.Join(AccessScopes(), ", "))
		}
		out = append(out, role)
	}
	if len(out) == 0 && n.Sound() {
		n.Fail("there is no role, so nobody could log in: write <value of the claim>: { scopes: [read-metadata] }")
	}
	return out
}

var (
	errConsoleURL = errors.New("not an address such as https://oncegate.example, without a path")
	errPlainHTTP  = errors.New("http is for a loopback address alone: what is sent could be read and changed on the way")
)

// consoleURL reads the address at which browsers reach the private listener.
func consoleURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errConsoleURL
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return "", errPlainHTTP
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}

// issuer parses the address of a provider. It does not normalize the address, because it must equal
// the one in identity tokens.
func issuer(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("not an address such as https://login.example")
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return "", errPlainHTTP
	}
	return s, nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func oneWord(s string) (string, error) {
	if s == "" || strings.ContainsAny(s, " \t\r\n\x00") {
		return "", errors.New("must be one word")
	}
	return s, nil
}

func (c *Console) effective() yaml.MapSlice {
	out := yaml.MapSlice{}
	if c.Off {
		out = append(out, item("enabled", false))
	}
	if c.URL != "" {
		out = append(out, item("url", c.URL))
	}
	if c.OIDC != nil {
		out = append(out, item("oidc", c.OIDC.effective()))
	}
	if len(c.Redact) > 0 {
		out = append(out, item("redact", c.Redact))
	}
	return out
}

func (o *OIDC) effective() yaml.MapSlice {
	out := yaml.MapSlice{item("issuer", o.Issuer), item("client_id", o.ClientID)}
	if o.ClientSecret != nil {
		out = append(out, item("client_secret", o.ClientSecret.From))
	}
	out = append(out, item("scopes", o.Scopes), item("claim", o.Claim))
	if len(o.Allow) > 0 {
		out = append(out, item("allow", prefixTexts(o.Allow)))
	}
	all := yaml.MapSlice{}
	for _, role := range o.Roles {
		one := yaml.MapSlice{item("scopes", role.Scopes)}
		if role.Tenant != "" {
			one = append(one, item("tenant", role.Tenant))
		}
		all = append(all, item(role.Value, one))
	}
	return append(out, item("roles", all))
}
