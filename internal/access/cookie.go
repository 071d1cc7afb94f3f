package access

import (
	"net/http"
	"strings"

	"github.com/oncegate/oncegate/internal/access/logins"
)

// Cookie names. A browser accepts a name with the prefix __Host- only over https, only from this
// host and only for all its paths. Neither another site of the domain nor an attacker on the
// network can therefore plant such a cookie. A browser on the same machine may reach the console
// without TLS; its cookies have names without the prefix.
const (
	hostPrefix  = "__Host-"
	loginCookie = "oncegate"
	flowCookie  = "oncegate-oidc"
)

// encrypted reports whether the request shows that the browser uses https. A client that falsely
// claims so only gets a cookie that it cannot send over plain HTTP.
func encrypted(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

// cookieName returns the name of a cookie to set, and whether the cookie is only for https.
func cookieName(r *http.Request, name string) (string, bool) {
	if !encrypted(r) && isLoopback(r.Host) {
		return name, false
	}
	return hostPrefix + name, true
}

// canLogIn reports whether the browser would keep a login cookie.
func (a *Access) canLogIn(r *http.Request) bool {
	return encrypted(r) || isLoopback(r.Host) || a.url != nil && a.url.Scheme == "https"
}

// cookieValue returns the value of a cookie in the request, or "". It accepts the name without the
// prefix only on a loopback address.
func cookieValue(r *http.Request, name string) string {
	names := []string{hostPrefix + name}
	if isLoopback(r.Host) {
		names = append(names, name)
	}
	for _, n := range names {
		// If two cookies have the same name, an attacker may have planted one, so both are ignored.
		if found := r.CookiesNamed(n); len(found) == 1 && found[0].Value != "" {
			return found[0].Value
		}
	}
	return ""
}

// setCookie sets a cookie for maxAge seconds, or until the browser closes if maxAge is 0.
func setCookie(w http.ResponseWriter, name string, secure bool, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is false only on a loopback address: see cookieName
		Name: name, Value: value, Path: "/", Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: maxAge,
	})
}

// dropCookie deletes a cookie in the browser, with and without the prefix.
func dropCookie(w http.ResponseWriter, r *http.Request, name string) {
	for _, n := range []string{name, hostPrefix + name} {
		if len(r.CookiesNamed(n)) > 0 {
			setCookie(w, n, strings.HasPrefix(n, hostPrefix), "", -1)
		}
	}
}

// currentLogin returns the digest of the request's login cookie, or nil if there is none.
func currentLogin(r *http.Request) *digest {
	value := cookieValue(r, loginCookie)
	if !logins.Plausible(value) {
		return nil
	}
	d := logins.Digest(value)
	return &d
}
