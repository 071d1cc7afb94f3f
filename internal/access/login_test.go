package access_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
)

func TestLoginWithAToken(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct{ address, cookie string }{
		"https":     {"https://oncegate.example", "__Host-oncegate"},
		"localhost": {"http://localhost:8081", "oncegate"},
		"loopback":  {"http://127.0.0.1:8081", "oncegate"},
		"IPv6":      {"http://[::1]:8081", "oncegate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *access.Config) {
				if strings.HasPrefix(at.address, "https") {
					c.URL = at.address
				}
			})
			text, created := b.create(t, tokens.New{Name: "ann", Tenant: "acme", Scopes: []string{"operate"}})
			w := newBrowser(t, b, at.address)
			w.is(w.do(http.MethodGet, "/login?return=/console/events%3Fsource=x", nil), "the page", 200, `name="return" value="/console/events?source=x"`)
			w.is(w.login("og_wrong"), "a wrong token", 401, "not a token of")
			w.is(w.do(http.MethodPost, "/login", url.Values{"token": {" " + text + "\n"}, "return": {"/console/events?source=x"}}), "the token", 303, "/console/events?source=x")
			if w.cookies[at.cookie] == nil || len(w.cookies) != 1 {
				t.Fatalf("the cookies are %v, want %s", w.cookies, at.cookie)
			}
			if got := w.who(); got != created.Actor()+" operate acme" {
				t.Errorf("the browser is %q", got)
			}
			value := w.cookies[at.cookie].Value
			// Logging in again changes the value, and the previous value stops working.
			w.is(w.login(text), "again", 303, "/console")
			if w.cookies[at.cookie].Value == value {
				t.Error("a second login keeps the value of the cookie")
			}
			old := newBrowser(t, b, at.address)
			old.cookies[at.cookie] = &http.Cookie{Name: at.cookie, Value: value}
			if got := old.who(); !strings.Contains(got, "log in again") {
				t.Errorf("the value of before is %q", got)
			}
			kept := w.cookies[at.cookie]
			w.is(w.do(http.MethodPost, "/logout", url.Values{}), "logging out", 303, "/login")
			if len(w.cookies) != 0 {
				t.Errorf("after logging out the browser has %v", w.cookies)
			}
			w.cookies[at.cookie] = kept
			if got := w.who(); !strings.Contains(got, "log in again") {
				t.Errorf("after logging out the cookie is %q", got)
			}
		})
	}
}

// A login never adopts a cookie that an attacker planted before it (session fixation).
func TestAPlantedCookieIsWorthNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	w := newBrowser(t, b, "http://localhost:8081")
	planted := strings.Repeat("A", 43)
	w.cookies["oncegate"] = &http.Cookie{Name: "oncegate", Value: planted}
	w.is(w.login(text), "the token", 303, "/console")
	if w.cookies["oncegate"].Value == planted {
		t.Fatal("the login took the planted cookie")
	}
	eve := newBrowser(t, b, "http://localhost:8081")
	eve.cookies["oncegate"] = &http.Cookie{Name: "oncegate", Value: planted}
	if got := eve.who(); strings.Contains(got, "token:ann") {
		t.Errorf("whoever planted it is %q", got)
	}
	// Over https a cookie without the prefix is ignored, because any site of the domain may have
	// set it.
	b = newBench(t, func(c *access.Config) { c.URL = "https://oncegate.example" })
	text, _ = b.create(t, tokens.New{Name: "ann"})
	w = newBrowser(t, b, "https://oncegate.example")
	w.is(w.login(text), "the token", 303, "/console")
	eve = newBrowser(t, b, "https://oncegate.example")
	eve.cookies["oncegate"] = &http.Cookie{Name: "oncegate", Value: w.cookies["__Host-oncegate"].Value}
	if got := eve.who(); strings.Contains(got, "token:ann") {
		t.Errorf("a cookie without the prefix is %q", got)
	}
}

// Nobody can log in without encryption, because the login cookie could be intercepted.
func TestNobodyLogsInWithoutEncryption(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	w := newBrowser(t, b, "http://oncegate.example:8081")
	w.is(w.do(http.MethodGet, "/login", nil), "the page", 200, "console.url")
	w.is(w.login(text), "the token", 403, "console.url")
	if len(w.cookies) != 0 {
		t.Errorf("the browser has %v", w.cookies)
	}
	// A proxy that terminates TLS says so in a header.
	w.scheme = "https"
	w.is(w.do(http.MethodPost, "/login", url.Values{"token": {text}}, "X-Forwarded-Proto", "https"), "behind a proxy", 303, "/console")
}

// Another site cannot make a browser act, neither with its login nor to start a login.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	w := newBrowser(t, b, "http://localhost:8081")
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "", "Origin", "http://localhost:3000"}, {"Sec-Fetch-Site", "", "Origin", "null"},
	} {
		if p := w.do(http.MethodPost, "/login", url.Values{"token": {text}}, header...); p.status != 403 || len(w.cookies) != 0 {
			t.Errorf("%v: a login gets %d", header, p.status)
		}
	}
	w.is(w.login(text), "the token", 303, "/console")
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "", "Origin", "https://evil.example"}} {
		if p := w.do(http.MethodPost, "/console", url.Values{}, header...); p.status != 403 {
			t.Errorf("%v: a request gets %d", header, p.status)
		}
		if p := w.do(http.MethodPost, "/logout", url.Values{}, header...); p.status != 403 {
			t.Errorf("%v: logging out gets %d", header, p.status)
		}
	}
	w.is(w.do(http.MethodPost, "/console", url.Values{}), "a request of ours", 200, "token:ann")
	// A request with a token needs no browser, and a cookie sent with it is ignored.
	w.is(w.do(http.MethodPost, "/console", url.Values{}, "Authorization", "Bearer "+text, "Sec-Fetch-Site", "", "Origin", ""), "a program", 200, "token:ann")
	w.is(w.do(http.MethodGet, "/console", nil, "Authorization", "Bearer wrong"), "a wrong token beside the cookie", 401, "not a token")
}

// After a login the browser is only sent to paths of this server.
func TestALoginLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	w := newBrowser(t, b, "http://localhost:8081")
	for _, elsewhere := range []string{
		"https://evil.example/", "//evil.example/", `/\evil.example/`, `\\evil.example`, "javascript:alert(1)", "evil.example", "/\t/evil.example",
		"/a\r\nSet-Cookie: x=1", "", "http:evil", "/login", "/logout", "/" + strings.Repeat("a", 3000),
	} {
		if p := w.do(http.MethodPost, "/login", url.Values{"token": {text}, "return": {elsewhere}}); p.status != 303 || p.location != "/console" {
			t.Errorf("%q leads to %q, %d", elsewhere, p.location, p.status)
		}
	}
	if got := access.LoginAddress(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/events?a=b&c", nil)); got != "/login?return=%2Fconsole%2Fevents%3Fa%3Db%26c" {
		t.Errorf("the address to log in at is %s", got)
	}
}

// Login attempts are limited per peer, over all ways to log in.
func TestLoginAttemptsAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	w := newBrowser(t, b, "http://localhost:8081")
	for i, guess := range genuineForm(10) {
		w.is(w.login(guess), fmt.Sprintf("guess %d", i), 401, "no token is this one")
	}
	for i := range 10 {
		w.is(w.do(http.MethodPost, "/login/link", url.Values{"code": {fmt.Sprintf("%042dA", i)}}), fmt.Sprintf("link %d", i), 401, "used already, or has expired")
	}
	w.is(w.login(genuineForm(1)[0]), "one guess too many", 429, "try again")
	w.is(w.do(http.MethodPost, "/login/link", url.Values{"code": {strings.Repeat("A", 43)}}), "one link too many", 429, "try again")
	w.is(w.do(http.MethodPost, "/login/link", url.Values{"code": {"short"}}), "what is no link", 401, "used already, or has expired")
	text, _ := b.create(t, tokens.New{Name: "ann"})
	b.at = b.at.Add(time.Second)
	w.is(w.login(text), "the token, a second later", 303, "/console")
}

// A link is used up by the button of its page, not by opening the page, and works once.
func TestLoginWithALink(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	code, _, err := b.logins.NewLink(t.Context(), logins.NewLink{Grant: logins.Grant{Actor: "link:ann", Scopes: []string{"admin"}}, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	address := access.LinkAddress("http://localhost:8081/", code)
	at, err := url.Parse(address)
	if err != nil || at.Host != "localhost:8081" {
		t.Fatalf("%s %v", address, err)
	}
	w := newBrowser(t, b, "http://localhost:8081")
	for range 3 {
		p := w.do(http.MethodGet, at.RequestURI(), nil)
		w.is(p, "the link", 200, `name="code" value="`+code+`"`)
		if p.header.Get("Cache-Control") != "no-store" || !strings.Contains(p.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("the page has the headers %v", p.header)
		}
	}
	w.is(w.do(http.MethodPost, "/login/link", url.Values{"code": {code}}, "Sec-Fetch-Site", "cross-site"), "another site", 403, "")
	w.is(w.do(http.MethodPost, "/login/link", url.Values{"code": {code}}), "the button", 303, "/console")
	if got := w.who(); got != "link:ann admin " {
		t.Errorf("the browser is %q", got)
	}
	w.is(newBrowser(t, b, "http://localhost:8081").do(http.MethodPost, "/login/link", url.Values{"code": {code}}), "again", 401, "used already")
	w.is(w.do(http.MethodGet, "/login?link=%22%3E%3Cscript%3E", nil), "an attack", 200, `name="token"`)
}

// A login lasts as long as it is in use, and its use is written at most once per minute.
func TestALoginThatIsUsedGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	w := newBrowser(t, b, "http://localhost:8081")
	w.login(text)
	for range 3 * 60 { // beyond the two hours for which an unused login lasts
		b.at = b.at.Add(time.Minute)
		if got := w.who(); !strings.Contains(got, "token:ann") {
			t.Fatalf("after %s the browser is %q", b.at, got)
		}
	}
	b.at = b.at.Add(logins.DefaultIdle)
	if got := w.who(); !strings.Contains(got, "log in again") {
		t.Errorf("an idle login is %q", got)
	}
	w.login(text)
	b.uses.Store(0)
	for range 10 { // five minutes
		b.at = b.at.Add(30 * time.Second)
		for range 20 {
			w.who()
			if _, err := b.bearer(t, text, "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := b.uses.Load(); n != 10 {
		t.Errorf("the uses of a login and a token in five minutes took %d statements, want 5 each", n)
	}
}
