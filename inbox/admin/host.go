package admin

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// privateSuffixes are the ends of names that cannot be registered on the internet.
var privateSuffixes = []string{".localhost", ".local", ".internal", ".svc", ".lan", ".home.arpa", ".test"}

// isOwnHost reports whether a Host header names this machine as no page of another site can: by its address, a name that only
// a private network resolves, or a configured name.
func (a *Admin) isOwnHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return true
	}
	isConfigured := slices.ContainsFunc(a.cfg.Hosts, func(name string) bool { return strings.EqualFold(name, host) })
	return isConfigured || slices.ContainsFunc(privateSuffixes, func(suffix string) bool { return strings.HasSuffix(host, suffix) })
}

// AnswerAnyHost lets the program that mounts the handler decide at which names it is reached. Call it before the first request.
func (a *Admin) AnswerAnyHost() { a.anyHost = true }

// atOwnHost serves requests at this machine's own names, and answers others 421.
func (a *Admin) atOwnHost(next http.Handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !a.anyHost && !a.isOwnHost(c.Request().Host) {
			return c.String(http.StatusMisdirectedRequest, "metrics are not answered at this name: ask by the address, by a name of the private network, or by the host of console.url\n")
		}
		next.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}
