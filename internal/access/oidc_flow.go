package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"golang.org/x/oauth2"

	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/visible"
)

// flow is one login at the provider. The browser keeps it in a cookie, so that no other browser can
// finish the login, any process of the installation can, and starting logins writes nothing to the
// database.
type flow struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Return   string `json:"return,omitempty"`
}

// flowSeconds is how long a browser keeps the flow, which limits how long a person may take at the
// provider.
const flowSeconds = 600

func newFlow(returnTo string) flow {
	return flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: localPath(returnTo)}
}

func (f flow) cookie() string {
	text, err := json.Marshal(f)
	if err != nil { // texts always marshal
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func flowOf(r *http.Request) (f flow, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(cookieValue(r, flowCookie))
	if err != nil || json.Unmarshal(text, &f) != nil {
		return flow{}, false
	}
	return f, f.State != "" && f.Nonce != "" && f.Verifier != ""
}

// equal compares values that an attacker must not be able to guess, in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// cookieNameAtURL is like cookieName, for requests to the configured URL. It ignores the request
// because a proxy may have changed it.
func (a *Access) cookieNameAtURL(name string) (string, bool) {
	if a.url.Scheme == "https" {
		return hostPrefix + name, true
	}
	return name, false
}

// startOIDC redirects the browser to the provider.
func (a *Access) startOIDC(w http.ResponseWriter, r *http.Request) {
	f := newFlow(r.URL.Query().Get("return"))
	page := LoginPage{Return: f.Return}
	if !a.guesses.take(a.peer(r), a.cfg.Now()) {
		a.refuseLogin(w, r, page, logins.ByOIDC, tooMany("too many logins were begun in the last moment: try again in a few seconds"))
		return
	}
	address, err := a.oidc.authorization(r.Context(), f)
	if err != nil {
		a.refuseOIDC(w, r, page, err)
		return
	}
	name, secure := a.cookieNameAtURL(flowCookie)
	setCookie(w, name, secure, f.cookie(), flowSeconds)
	http.Redirect(w, r, address, http.StatusSeeOther) //nolint:gosec // the address is the provider's own, from the configuration
}

// finishOIDC handles the request with which the provider returns the browser.
func (a *Access) finishOIDC(w http.ResponseWriter, r *http.Request) {
	given := r.URL.Query()
	f, begun := flowOf(r)
	page := LoginPage{Return: f.Return}
	dropCookie(w, r, flowCookie) // one use only, whether or not the login succeeds
	switch {
	case !a.guesses.take(a.peer(r), a.cfg.Now()):
		a.refuseLogin(w, r, page, logins.ByOIDC, tooMany("too many logins were tried in the last moment: try again in a few seconds"))
		return
	case !begun || !equal(given.Get("state"), f.State):
		a.refuseLogin(w, r, LoginPage{}, logins.ByOIDC, unauthorized("this login was not begun in this browser, or was finished already: log in again"))
		return
	case given.Has("iss") && given.Get("iss") != a.oidc.cfg.Issuer: // RFC 9207
		a.refuseLogin(w, r, page, logins.ByOIDC, unauthorized("another provider than console.oidc.issuer answered: log in again"))
		return
	case given.Get("error") != "":
		a.refuseLogin(w, r, page, logins.ByOIDC, unauthorized("the provider did not log you in: "+short(given.Get("error"))))
		return
	}
	identity, err := a.oidc.identify(r.Context(), given.Get("code"), f)
	if err != nil {
		a.refuseOIDC(w, r, page, err)
		return
	}
	person, err := a.oidc.cfg.personOf(identity)
	if err != nil {
		a.refuseLogin(w, r, page, logins.ByOIDC, err)
		return
	}
	a.guesses.give(a.peer(r)) // only for the callback; the attempt at the start still counts because it cost a request to the provider
	a.begin(w, r, page, logins.Opening{
		Grant: person.grant, Method: logins.ByOIDC, Previous: currentLogin(r),
		Detail: map[string]string{"issuer": identity.Issuer, "subject": short(identity.Subject), "role": person.role},
	})
}

// refuseOIDC logs a failure of the provider and shows it on the login page.
func (a *Access) refuseOIDC(w http.ResponseWriter, r *http.Request, page LoginPage, err error) {
	a.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "the OpenID Connect provider did not log somebody in", slog.Any("error", err))
	if errors.Is(err, context.Canceled) {
		return // the browser has disconnected
	}
	what := "did not answer"
	if failed, ok := errors.AsType[*providerError](err); ok {
		what = failed.what
	}
	a.refuseLogin(w, r, page, logins.ByOIDC, unauthorized("the OpenID Connect provider "+what+"; the log of the server says why. Log in again, or with a token"))
}

// short makes a text from outside safe and short enough for a message.
func short(text string) string {
	text = visible.Text(text)
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "..."
	}
	return text
}
