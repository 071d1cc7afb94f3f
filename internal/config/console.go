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

func (c *Console) keys() []Key {
	return []Key{
		value("enabled", &c.Off, inverse(boolean), "`true`", "`false` serves no console on `listen.admin`. Without a login it shows nothing."),
		list("redact", &c.Redact, words(memberPath), "none", "Members of payloads that are masked until a person with the scope `read-payload` reveals them: names at any depth, or dotted paths in which `*` matches one step. Each source's `redact` applies as well, and members whose names suggest secrets are always masked."),
		reference("url", &c.URL, consoleURL, "a loopback address", "The address at which browsers reach the private listener, such as `https://oncegate.example`. A proxy that ends TLS needs it, and so does `oidc`.").from("ONCEGATE_CONSOLE_URL"),
		part("oidc", "oidc", &c.OIDC, (*reader).oidc, (*OIDC).keys, "none", "The OpenID Connect provider at which people log in."),
	}
}

// checkConsole checks what depends on the whole section and the environment.
func (r *reader) checkConsole(cfg *Config) {
	if cfg.Console.OIDC != nil && cfg.Console.URL == "" && r.sound("console.url") {
		r.report.Add("console.url: missing: the OpenID Connect provider sends the browser back there, such as https://oncegate.example")
	}
}

func (o *OIDC) keys() []Key {
	return []Key{
		reference("issuer", &o.Issuer, issuer, "required", "The provider's address, exactly as its identity tokens name it."),
		reference("client_id", &o.ClientID, oneWord, "required", "What the provider knows this installation by."),
		{
			Name: "client_secret", Default: "none", Text: "A [secret](#secrets). A public client has none: each login is protected by PKCE as well.",
			read: func(r *reader, n *yamltree.Node) {
				if ref, ok := r.secret(n); ok {
					o.ClientSecret = &ref
				}
			},
			show: func() (any, bool) {
				if o.ClientSecret == nil {
					return nil, false
				}
				return o.ClientSecret.From, true
			},
			schema: secretSchema,
		},
		list("scopes", &o.Scopes, words(oneWord), "`[email]`", "The OAuth scopes to request in addition to `openid`, such as the scope that makes the provider put `claim` into its identity tokens.").shown(),
		value("claim", &o.Claim, words(oneWord), "`groups`", "The member of the identity token that determines a person's role: a text or a list of texts. Dots lead into nested members, such as `realm_access.roles`.").starts(),
		{
			Name: "roles", Default: "required", Text: "The scopes of people, by the value of the claim. The first value in the file that a person has counts. A person without any of them cannot log in.",
			read: func(r *reader, n *yamltree.Node) { o.Roles = r.roles(n) }, schema: mappingOf(defined("role")),
			show: func() (any, bool) {
				out := yaml.MapSlice{}
				for _, role := range o.Roles {
					out = append(out, yaml.MapItem{Key: role.Value, Value: printed(role.keys())})
				}
				return out, true
			},
		},
		list("allow", &o.Allow, network, "none", "Private networks in which the provider may be. An issuer that is written as an address is allowed without it."),
	}
}

func (r *reader) oidc(n *yamltree.Node) *OIDC {
	o := &OIDC{Scopes: []string{"email"}}
	start(o.keys())
	r.fields(n, o.keys())
	for _, required := range []struct{ key, why string }{
		{"issuer", "issuer is missing: the provider's address, such as https://login.example"},
		{"client_id", "client_id is missing: what the provider knows this installation by"},
		{"roles", "roles is missing: the scopes of each value of the claim; a person without one cannot log in"},
	} {
		if n.Lacks(required.key) {
			n.Fail("%s", required.why)
		}
	}
	return o
}

func (role *Role) keys() []Key {
	return []Key{
		list("scopes", &role.Scopes, oneOf(AccessScopes()...), "required", "`read-metadata`, `read-payload`, `operate` or `admin`: see [Scopes](../guides/access.md#scopes)."),
		tenantKey(&role.Tenant, "everybody's", "The only tenant whose things these people reach."),
	}
}

func (r *reader) roles(n *yamltree.Node) []Role {
	var out []Role
	for _, member := range n.Members() {
		role := Role{Value: member.Name()}
		r.fields(member, role.keys())
		if len(role.Scopes) == 0 && member.Sound() {
			member.Fail("scopes is missing: what people with this value may do: %s", strings.Join(AccessScopes(), ", "))
		}
		out = append(out, role)
	}
	if len(out) == 0 && n.Sound() {
		n.Fail("there is no role, so no person could log in: write <value of the claim>: { scopes: [read-metadata] }")
	}
	return out
}

var (
	errConsoleURL = errors.New("not an address such as https://oncegate.example, without a path")
	errPlainHTTP  = errors.New("http is allowed only for a loopback address, because others could read and change the content on the way")
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
