package access

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/visible"
)

// The paths that [Access.Handler] serves.
const (
	LoginPath    = "/login"
	linkPath     = "/login/link"
	startPath    = "/login/oidc"
	callbackPath = "/login/oidc/callback"
	LogoutPath   = "/logout"
)

// maxForm is the maximum size of the body of a login request, in bytes.
const maxForm = 16 << 10

// Handler returns the handler for /login, the paths below it, and /logout.
func (a *Access) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+LoginPath, a.showLogin)
	mux.HandleFunc("POST "+LoginPath, a.loginWithToken)
	mux.HandleFunc("POST "+linkPath, a.loginWithLink)
	mux.HandleFunc("POST "+LogoutPath, a.logout)
	if a.oidc != nil {
		mux.HandleFunc("GET "+startPath, a.startOIDC)
		mux.HandleFunc("GET "+callbackPath, a.finishOIDC)
	}
	guarded := a.Protect(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // the address of a link contains its code
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		guarded.ServeHTTP(w, r)
	})
}

// Mount registers [Access.Handler] for its paths on mux.
func (a *Access) Mount(mux *http.ServeMux) {
	handler := a.Handler()
	for _, path := range []string{LoginPath, LoginPath + "/", LogoutPath} {
		mux.Handle(path, handler)
	}
}

// LoginAddress returns the address of the login page. After the login the browser returns to the
// page that r requested, if r is a GET request.
func LoginAddress(r *http.Request) string {
	if r.Method != http.MethodGet {
		return LoginPath
	}
	return LoginPath + "?" + url.Values{"return": {r.URL.RequestURI()}}.Encode()
}

// LinkAddress returns the address at which a browser uses the code of a one-time login link. base
// is the address of the console, without a path.
func LinkAddress(base, code string) string {
	return strings.TrimSuffix(base, "/") + LoginPath + "?" + url.Values{"link": {code}}.Encode()
}

// showLogin shows the ways to log in. Showing the page does not use up the code of a link; only its
// button does, because mail scanners and chat previews open links before people do.
func (a *Access) showLogin(w http.ResponseWriter, r *http.Request) {
	page := LoginPage{Code: r.URL.Query().Get("link"), Return: r.URL.Query().Get("return")}
	if !logins.Plausible(page.Code) {
		page.Code = ""
	}
	a.show(w, r, http.StatusOK, page)
}

// loginWithToken starts a login with the token in the form.
func (a *Access) loginWithToken(w http.ResponseWriter, r *http.Request) {
	page := LoginPage{Return: r.PostFormValue("return")}
	if !a.canLogIn(r) {
		a.show(w, r, http.StatusForbidden, page)
		return
	}
	found, err := a.findToken(r, strings.TrimSpace(r.PostFormValue("token")))
	if err != nil {
		a.refuseLogin(w, r, page, logins.ByToken, err)
		return
	}
	a.begin(w, r, page, logins.Opening{
		Grant:  logins.Grant{Actor: found.Actor(), Scopes: found.Scopes, Tenant: found.Tenant},
		Method: logins.ByToken, Token: found.ID, Previous: currentLogin(r),
	})
}

// loginWithLink starts a login with the code of a one-time link.
func (a *Access) loginWithLink(w http.ResponseWriter, r *http.Request) {
	page := LoginPage{Return: r.PostFormValue("return")}
	if !a.canLogIn(r) {
		a.show(w, r, http.StatusForbidden, page)
		return
	}
	code, peer := r.PostFormValue("code"), a.peer(r)
	switch {
	case !logins.Plausible(code):
		a.refuseLogin(w, r, page, logins.ByLink, unauthorized(logins.ErrLink.Error()+": make another one with `oncegate logins link`"))
		return
	case !a.guesses.take(peer, a.cfg.Now()):
		a.refuseLogin(w, r, page, logins.ByLink, tooMany("too many attempts failed in the last moment: try again in a few seconds"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookupTimeout)
	defer cancel()
	cookie, begun, err := a.cfg.Logins.BeginWithLink(ctx, code, currentLogin(r))
	switch {
	case errors.Is(err, logins.ErrLink):
		a.refuseLogin(w, r, page, logins.ByLink, unauthorized(err.Error()+": make another one with `oncegate logins link`"))
		return
	case err != nil:
		a.refuseLogin(w, r, page, logins.ByLink, a.unavailable(ctx, err))
		return
	}
	a.guesses.give(peer)
	a.begun(w, r, page, cookie, begun)
}

// begin records a login and redirects the browser to the page that it requested.
func (a *Access) begin(w http.ResponseWriter, r *http.Request, page LoginPage, o logins.Opening) {
	ctx, cancel := context.WithTimeout(r.Context(), lookupTimeout)
	defer cancel()
	cookie, login, err := a.cfg.Logins.Begin(ctx, o)
	if err != nil {
		a.refuseLogin(w, r, page, o.Method, a.unavailable(ctx, err))
		return
	}
	a.begun(w, r, page, cookie, login)
}

func (a *Access) begun(w http.ResponseWriter, r *http.Request, page LoginPage, cookie string, login *logins.Login) {
	if previous := currentLogin(r); previous != nil {
		a.logins.forget(*previous)
	}
	name, secure := cookieName(r, loginCookie)
	if login.Method == logins.ByOIDC {
		name, secure = a.cookieNameAtURL(loginCookie)
	}
	setCookie(w, name, secure, cookie, 0)
	a.cfg.Logger.LogAttrs(r.Context(), slog.LevelInfo, "somebody logged in to the console", slog.String("actor", login.Actor),
		slog.String("method", string(login.Method)), slog.String("login", login.ID.String()), slog.String("peer", a.peer(r).String()))
	http.Redirect(w, r, a.returnTo(page.Return), http.StatusSeeOther)
}

// refuseLogin logs why a login was refused and shows the reason on the login page.
func (a *Access) refuseLogin(w http.ResponseWriter, r *http.Request, page LoginPage, method logins.Method, err error) {
	problem := control.ProblemOf(err)
	page.Problem = problem.Error()
	a.cfg.Logger.LogAttrs(r.Context(), slog.LevelWarn, "a login was refused", slog.String("method", string(method)),
		slog.String("peer", a.peer(r).String()), slog.String("problem", problem.Error()))
	a.show(w, r, problem.Code.Meaning().Status, page)
}

// show completes the fields common to all login pages and writes the page.
func (a *Access) show(w http.ResponseWriter, r *http.Request, status int, page LoginPage) {
	page.Return = localPath(page.Return)
	if a.oidc != nil {
		// The provider redirects the browser to this address, so the login cookie must be set
		// there.
		page.OIDC = a.url.JoinPath(startPath).String()
		if page.Return != "" {
			page.OIDC += "?" + url.Values{"return": {page.Return}}.Encode()
		}
	}
	if !a.canLogIn(r) {
		page.Unsafe = true
		page.Problem = "This address is not encrypted, so logging in is not possible here: use https and set console.url, or open the console on a loopback address, such as through ssh -L."
	}
	a.cfg.Page(w, r, status, page)
}

// logout ends the login of the request's cookie. A browser that is already logged out gets the same
// redirect.
func (a *Access) logout(w http.ResponseWriter, r *http.Request) {
	if d := currentLogin(r); d != nil {
		ctx, cancel := context.WithTimeout(r.Context(), lookupTimeout)
		defer cancel()
		if login, err := a.login(r); err == nil {
			if err := a.cfg.Logins.End(ctx, login.ID); err != nil {
				a.refuseLogin(w, r, LoginPage{}, login.Method, a.unavailable(ctx, err))
				return
			}
		}
		a.logins.forget(*d)
	}
	dropCookie(w, r, loginCookie)
	http.Redirect(w, r, LoginPath, http.StatusSeeOther)
}

// returnTo returns the path to which the browser is sent after a login.
func (a *Access) returnTo(path string) string {
	if path = localPath(path); path != "" {
		return path
	}
	return a.cfg.Home
}

// localPath returns path if it is a path of this server, and "" if it would lead the browser to
// another site.
func localPath(path string) string {
	at, err := url.Parse(path)
	if err != nil || at.Scheme != "" || at.Host != "" || at.User != nil || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.Contains(path, `\`) || visible.Text(path) != path || len(path) > 2048 {
		return ""
	}
	if strings.HasPrefix(at.Path, LoginPath) || strings.HasPrefix(at.Path, LogoutPath) {
		return "" // returning to the login page would look like a failed login
	}
	return path
}
