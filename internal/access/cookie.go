package access

import (
	"net/http"
	"strings"

	"github.com/oncegate/oncegate/internal/access/logins"
)

// The names of the cookies. A browser takes a name with the prefix only over https, from this host
// alone and for all its paths, so that neither another site of the domain nor anybody on the network
// can plant one. A browser on the same machine may reach the console without TLS, and gets a name
// without the prefix.
const (
	hostPrefix  = "__Host-"
	loginCookie = "oncegate"
	flowCookie  = "oncegate-oidc"
)

// encrypted reports whether the browser reaches us by https, as far as the request shows it. A client
// that claims so of itself only gets a cookie that it may not send in the clear.
func encrypted(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

// cookieName gives the name of a cookie to set, and whether it is for https alone.
func cookieName(r *http.Request, name string) (string, bool) {
	if !encrypted(r) && isLoopback(r.Host) {
		return name, false
	}
	return hostPrefix + name, true
}

// canLogIn reports whether the browser would keep the cookie of a login.
func (a *Access) canLogIn(r *http.Request) bool {
	return encrypted(r) || isLoopback(r.Host) || a.url != nil && a.url.Scheme == "https"
}

// cookieValue gives the value of a cookie that the request carries, or "". The name without the
// prefix counts on a loopback address alone.
func cookieValue(r *http.Request, name string) string {
	names := []string{hostPrefix + name}
	if isLoopback(r.Host) {
		names = append(names, name)
	}
	for _, n := range names {
		// Of two with one name, one was planted: neither counts.
		if found := r.CookiesNamed(n); len(found) == 1 && found[0].Value != "" {
			return found[0].Value
		}
	}
	return ""
}

// setCookie sets a cookie for as long as the browser runs, or for maxAge seconds.
func setCookie(w http.ResponseWriter, name string, secure bool, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is false only on a loopback address: see cookieName
		Name: name, Value: value, Path: "/", Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: maxAge,
	})
}

// dropCookie has the browser forget a cookie, under each name that it may have.
func dropCookie(w http.ResponseWriter, r *http.Request, name string) {
	for _, n := range []string{name, hostPrefix + name} {
		if len(r.CookiesNamed(n)) > 0 {
			setCookie(w, n, strings.HasPrefix(n, hostPrefix), "", -1)
		}
	}
}

// currentLogin gives the digest of the login cookie of a request; nil without one.
func currentLogin(r *http.Request) *digest {
	value := cookieValue(r, loginCookie)
	if !logins.Plausible(value) {
		return nil
	}
	d := logins.Digest(value)
	return &d
}
