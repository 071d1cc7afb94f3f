package access_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/egress/egresstest"
)

// newOIDCBench returns a bench with logins at the provider.
func newOIDCBench(t *testing.T, p *provider, change func(*access.OIDC)) *bench {
	t.Helper()
	return newBench(t, func(c *access.Config) {
		c.URL = "https://oncegate.example"
		c.OIDC = &access.OIDC{
			Issuer: p.URL, ClientID: "oncegate", ClientSecret: clientSecret, Scopes: []string{"email", "groups"}, Claim: "groups",
			Roles: []access.Role{{Value: "admins", Scopes: []string{"admin"}}, {Value: "support", Scopes: []string{"operate", "read-payload"}, Tenant: "acme"}},
		}
		if change != nil {
			change(c.OIDC)
		}
	})
}

// begin starts a login in a browser and returns the address at the provider.
func (b *browser) begin(path string) string {
	b.t.Helper()
	p := b.do(http.MethodGet, path, nil)
	if p.status != http.StatusSeeOther {
		b.t.Fatalf("%s: %d %s", path, p.status, p.body)
	}
	return p.location
}

func TestLoginAtAProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	b := newOIDCBench(t, p, nil)
	w := newBrowser(t, b, "https://oncegate.example")
	w.is(w.do(http.MethodGet, "/login?return=/console/events", nil), "the page", 200, `href="https://oncegate.example/login/oidc?return=%2Fconsole%2Fevents"`)
	if p.asked["/.well-known/openid-configuration"] != 0 {
		t.Error("the provider was asked before anybody wanted to log in")
	}
	callback := p.consent(t, w.begin("/login/oidc?return=/console/events"))
	if !strings.HasPrefix(callback, "/login/oidc/callback?") || w.cookies["__Host-oncegate-oidc"] == nil {
		t.Fatalf("%s, the cookies are %v", callback, w.cookies)
	}
	w.is(w.do(http.MethodGet, callback, nil, "Sec-Fetch-Site", "cross-site"), "the callback", 303, "/console/events")
	if got := w.who(); got != "oidc:ann@example.com operate, read-payload acme" {
		t.Errorf("the browser is %q", got)
	}
	if len(w.cookies) != 1 || !p.basic {
		t.Errorf("the cookies are %v, the client proved itself by a header: %t", w.cookies, p.basic)
	}
	var detail string
	err := b.pool.QueryRow(t.Context(), `SELECT after->>'method' || ' ' || (after->'detail')::text FROM audit WHERE action = 'login.begin'`).Scan(&detail)
	if want := fmt.Sprintf(`oidc {"role": "support", "issuer": %q, "subject": "user-1"}`, p.URL); err != nil || detail != want {
		t.Errorf("the audit has %s, want %s, %v", detail, want, err)
	}
	// The next login reads neither the provider's keys nor its metadata again.
	w.is(w.do(http.MethodGet, p.consent(t, w.begin("/login/oidc")), nil), "another login", 303, "/console")
	if p.asked["/keys"] != 1 || p.asked["/.well-known/openid-configuration"] != 1 {
		t.Errorf("the provider was asked %v", p.asked)
	}
}

// Attacks by the provider, or by someone in its place, fail. Nobody is logged in, and the next
// login at an honest provider works.
func TestLoginsAtAProviderThatAreRefused(t *testing.T) {
	t.Parallel()
	is := func(status int, part string) func(*browser, *provider, string) {
		return func(w *browser, p *provider, callback string) {
			w.is(w.do(http.MethodGet, callback, nil), "the callback", status, part)
		}
	}
	set := func(name string, value any) func(*provider) {
		return func(p *provider) { p.claims = func(claims map[string]any) { claims[name] = value } }
	}
	for name, c := range map[string]struct {
		provider func(*provider)
		finish   func(*browser, *provider, string)
		log      string // why, for the operator
	}{
		"wrong nonce":    {set("nonce", "another"), is(401, "made for another login"), ""},
		"no nonce":       {set("nonce", nil), is(401, "made for another login"), ""},
		"wrong audience": {set("aud", "another"), is(401, "does not verify"), "expected audience"},
		"wrong issuer":   {set("iss", "https://evil.example"), is(401, "does not verify"), "issued by a different provider"},
		"expired":        {set("exp", time.Now().Add(-time.Second).Unix()), is(401, "does not verify"), "token is expired"},
		"not yet valid":  {set("nbf", time.Now().Add(time.Hour).Unix()), is(401, "does not verify"), "nbf"},
		"alg none":       {func(p *provider) { p.sign = unsigned }, is(401, "does not verify"), ""},
		"symmetric": {func(p *provider) {
			// The client's secret is not a signing key, so a token signed with it is rejected.
			p.sign = func(claims []byte) string {
				return p.signed(jose.HS256, []byte(clientSecret+clientSecret), "1", claims)
			}
		}, is(401, "does not verify"), ""},
		"another key": {func(p *provider) {
			p.sign = func(claims []byte) string { return p.signed(jose.ES256, p.other, "1", claims) }
		}, is(401, "does not verify"), ""},
		"another RSA key": {func(p *provider) {
			p.sign = func(claims []byte) string { return p.signed(jose.RS256, strangeKey(), "1", claims) }
		}, is(401, "does not verify"), ""},
		"changed claims": {func(p *provider) {
			p.sign = func(claims []byte) string {
				parts := strings.Split(p.signed(jose.RS256, p.key, "1", claims), ".")
				return parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(claims), "support", "admins", 1))) + "." + parts[2]
			}
		}, is(401, "does not verify"), ""},
		"no identity token": {func(p *provider) {
			p.answer = func(w http.ResponseWriter) bool {
				_, _ = w.Write([]byte(`{"access_token":"a","token_type":"Bearer"}`))
				return true
			}
		}, is(401, "no identity token"), ""},
		"an answer without an end": {func(p *provider) {
			p.answer = func(w http.ResponseWriter) bool {
				for range 64 {
					_, _ = w.Write([]byte(strings.Repeat("x", 1<<16)))
				}
				return true
			}
		}, is(401, "did not exchange the code"), ""},
		"a redirect": {func(p *provider) {
			p.answer = func(w http.ResponseWriter) bool {
				w.Header().Set("Location", p.URL+"/keys")
				w.WriteHeader(http.StatusTemporaryRedirect)
				return true
			}
		}, is(401, "refused the code"), ""},
		"no role":              {set("groups", []string{"everyone", "Admins", "admin"}), is(403, "you are ann@example.com, and no value of your claim groups has a role here"), ""},
		"no claim":             {set("groups", nil), is(403, "your account has no claim groups"), ""},
		"a claim that is none": {set("groups", map[string]any{"admins": true}), is(403, "no claim groups"), ""},
		"another text":         {set("groups", "admins support"), is(403, "no value of your claim"), ""},
		"refused by the person": {nil, func(w *browser, _ *provider, callback string) {
			at, _ := url.Parse(callback)
			w.is(w.do(http.MethodGet, at.Path+"?error=access_denied%3Cscript%3E&state="+at.Query().Get("state"), nil), "the callback", 401, "access_denied&lt;script&gt;")
		}, ""},
		"another provider's answer": {nil, func(w *browser, _ *provider, callback string) {
			at, _ := url.Parse(callback)
			q := at.Query()
			q.Set("iss", "https://evil.example")
			w.is(w.do(http.MethodGet, at.Path+"?"+q.Encode(), nil), "the callback", 401, "another provider")
		}, ""},
		"state of another browser": {nil, func(w *browser, p *provider, callback string) {
			// Eve makes the browser of another person finish the login that she started, or her own
			// browser finish theirs.
			eve := *w
			eve.cookies = map[string]*http.Cookie{}
			hers := p.consent(w.t, eve.begin("/login/oidc"))
			w.is(w.do(http.MethodGet, hers, nil), "her state", 401, "not begun in this browser")
			w.is(eve.do(http.MethodGet, callback, nil), "their state", 401, "not begun in this browser")
			if p.asked["/token"] != 0 {
				w.t.Error("the provider was asked about a code with another browser's state")
			}
			if who := eve.who(); strings.Contains(who, "ann@") {
				w.t.Errorf("eve is %q", who)
			}
		}, ""},
		"no state": {nil, func(w *browser, _ *provider, callback string) {
			at, _ := url.Parse(callback)
			w.is(w.do(http.MethodGet, at.Path+"?code="+at.Query().Get("code"), nil), "the callback", 401, "not begun in this browser")
		}, ""},
		"code of another login": {nil, func(w *browser, p *provider, callback string) {
			// A stolen code is useless with another state, because its verifier is missing.
			eve := *w
			eve.cookies = map[string]*http.Cookie{}
			hers, _ := url.Parse(p.consent(w.t, eve.begin("/login/oidc")))
			theirs, _ := url.Parse(callback)
			w.is(eve.do(http.MethodGet, hers.Path+"?"+url.Values{"code": {theirs.Query().Get("code")}, "state": {hers.Query().Get("state")}}.Encode(), nil), "the callback", 401, "refused the code: invalid_grant")
			delete(w.cookies, "__Host-oncegate-oidc") // of the person, who never returns
		}, ""},
		"code used twice": {nil, func(w *browser, p *provider, callback string) {
			flow := w.cookies["__Host-oncegate-oidc"]
			first := *w
			first.cookies = map[string]*http.Cookie{flow.Name: flow}
			w.is(first.do(http.MethodGet, callback, nil), "the first time", 303, "/console")
			w.is(first.do(http.MethodGet, callback, nil), "again", 401, "finished already")
			// Even with a copy of the cookie, the provider does not accept a code twice.
			w.is(w.do(http.MethodGet, callback, nil), "with a copy", 401, "refused the code: invalid_grant")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			b := newOIDCBench(t, p, nil)
			w := newBrowser(t, b, "https://oncegate.example")
			callback := p.consent(t, w.begin("/login/oidc"))
			if c.provider != nil {
				c.provider(p)
			}
			c.finish(w, p, callback)
			if got := b.log.String(); !strings.Contains(got, c.log) || strings.Contains(got, clientSecret) || strings.Contains(got, "<script>alert") {
				t.Errorf("the log has %s, want %q", got, c.log)
			}
			if w.cookies["__Host-oncegate"] != nil || w.cookies["__Host-oncegate-oidc"] != nil {
				t.Errorf("the browser has %v", w.cookies)
			}
			p.claims, p.sign, p.answer = nil, nil, nil
			w.is(w.do(http.MethodGet, p.consent(t, w.begin("/login/oidc")), nil), "an honest login", 303, "/console")
		})
	}
}

// If a provider is unreachable, has another issuer or is in a network that is not allowed, the page
// says so. Once the problem is solved, people can log in.
func TestAProviderThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	b := newOIDCBench(t, p, nil)
	w := newBrowser(t, b, "https://oncegate.example")
	p.discover = func(document map[string]any) { document["issuer"] = p.URL + "/" }
	w.is(w.do(http.MethodGet, "/login/oidc", nil), "another name", 401, "cannot be asked about itself")
	if !strings.Contains(b.log.String(), "write console.oidc.issuer so") {
		t.Errorf("the log has %s", b.log.String())
	}
	p.discover = nil
	w.is(w.do(http.MethodGet, p.consent(t, w.begin("/login/oidc")), nil), "the same, mended", 303, "/console")

	// The metadata are read up to a limit that no real provider reaches.
	p.padding = 4 << 20
	long := newOIDCBench(t, p, nil)
	w = newBrowser(t, long, "https://oncegate.example")
	w.is(w.do(http.MethodGet, "/login/oidc", nil), "an answer that is too long", 401, "cannot be asked about itself")
	p.padding = 0

	// A name that resolves to a private network is not used unless the network is allowed.
	at, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	named := "http://login.example.:" + at.Port()
	p.discover = func(document map[string]any) { document["issuer"] = named }
	p.asked = map[string]int{}
	for _, allow := range [][]netip.Prefix{nil, {netip.MustParsePrefix("127.0.0.0/8")}} {
		b := newOIDCBench(t, p, func(o *access.OIDC) {
			o.Issuer, o.Allow, o.Resolver = named, allow, egresstest.NewNameServer(t, "127.0.0.1").Resolver()
		})
		w := newBrowser(t, b, "https://oncegate.example")
		if got := w.do(http.MethodGet, "/login/oidc", nil); (got.status == 303) != (allow != nil) || (len(p.asked) > 0) != (allow != nil) {
			t.Errorf("allowing %v: %d %s, asked %v", allow, got.status, got.body, p.asked)
		}
		if allow == nil && !strings.Contains(b.log.String(), "`allow` with its network would permit it") {
			t.Errorf("the log has %s", b.log.String())
		}
	}
	closed := newProvider(t)
	b = newOIDCBench(t, closed, nil)
	closed.Close()
	w = newBrowser(t, b, "https://oncegate.example")
	w.is(w.do(http.MethodGet, "/login/oidc", nil), "away", 401, "cannot be asked about itself")
	if strings.Contains(w.do(http.MethodGet, "/login/oidc", nil).body, clientSecret) {
		t.Error("the page has the secret")
	}
}

// Starting logins is limited, because each finished login costs the provider a request.
func TestLoginsAtAProviderAreLimited(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	b := newOIDCBench(t, p, nil)
	w := newBrowser(t, b, "https://oncegate.example")
	got := map[int]int{}
	for range 30 {
		got[w.do(http.MethodGet, "/login/oidc/callback?code=x&state=y", nil).status]++
	}
	if got[401] != 20 || got[429] != 10 || p.asked["/token"] != 0 {
		t.Errorf("30 callbacks got %v and asked the provider %v", got, p.asked)
	}
}
