package access

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/control"
)

// Authenticate identifies the caller of a request and returns what the caller may do, based on the
// token or the login. A request with an Authorization header is never authenticated by a login,
// even if it has a cookie. The error is a [control.Problem].
func (a *Access) Authenticate(r *http.Request) (control.Access, error) {
	if _, given := r.Header["Authorization"]; given {
		return a.byToken(r)
	}
	return a.byLogin(r)
}

// byToken authenticates a request by the token in its Authorization header.
func (a *Access) byToken(r *http.Request) (control.Access, error) {
	text, err := bearer(r)
	if err != nil {
		return control.Access{}, err
	}
	found, err := a.findToken(r, text)
	if err != nil {
		return control.Access{}, err
	}
	var last time.Time
	if found.LastUsedAt != nil {
		last = *found.LastUsedAt
	}
	if now := a.cfg.Now(); a.tokens.isUseDue(tokens.Digest(text), last, now, tokens.UseEvery) {
		a.use(r.Context(), "token", found.ID, now, a.cfg.Tokens.Use)
	}
	return control.Access{Actor: found.Actor(), Credential: "token/" + found.ID.String(), Scopes: scopesOf(found.Scopes), Tenant: found.Tenant}, nil
}

// bearer returns the token in the Authorization header. Its errors quote nothing of the header.
func bearer(r *http.Request) (string, error) {
	given := r.Header.Values("Authorization")
	scheme, text, _ := strings.Cut(given[0], " ")
	switch text = strings.TrimSpace(text); {
	case len(given) > 1:
		return "", unauthorized("the request has several Authorization headers: send one")
	case !strings.EqualFold(scheme, "Bearer") || text == "":
		return "", unauthorized("the Authorization header must be Bearer and a token, such as Authorization: Bearer og_...")
	}
	return text, nil
}

// findToken returns the token for its text. It returns an error unless the token is active.
func (a *Access) findToken(r *http.Request, text string) (*tokens.Token, error) {
	if !tokens.Plausible(text) {
		if strings.HasPrefix(text, "ogs_") {
			return nil, unauthorized("this is the token of an agent session, which calls operations at its source; the API and the console take a token of `oncegate tokens create`")
		}
		return nil, unauthorized("this is not a token of `oncegate tokens create`, or not all of one: a token is og_ and 49 letters and digits")
	}
	now := a.cfg.Now()
	found, err := a.tokens.get(r.Context(), tokens.Digest(text), a.peer(r), now)
	switch {
	case errors.Is(err, errNotFound):
		return nil, unauthorized("no token is this one: it belongs to another installation, or does not exist")
	case errors.Is(err, errTooMany):
		return nil, tooMany("too many unknown tokens came in the last moment: try again in a few seconds")
	case err != nil:
		return nil, a.unavailable(r.Context(), err)
	}
	switch found.StateAt(now) {
	case tokens.Revoked:
		return nil, unauthorized("the token " + found.Name + " was revoked")
	case tokens.Expired:
		return nil, unauthorized("the token " + found.Name + " expired at " + found.ExpiresAt.UTC().Format(time.RFC3339))
	case tokens.Active:
	}
	return found, nil
}

// byLogin authenticates a request by its login cookie. A request that changes something must come
// from one of our own pages.
func (a *Access) byLogin(r *http.Request) (control.Access, error) {
	found, err := a.login(r)
	if err != nil {
		return control.Access{}, err
	}
	if err := a.protection.Check(r); err != nil {
		return control.Access{}, forbidden("another site had the browser make this request, so nothing was changed")
	}
	if now := a.cfg.Now(); a.logins.isUseDue(*currentLogin(r), found.UsedAt, now, logins.UseEvery) {
		a.use(r.Context(), "login", found.ID, now, a.cfg.Logins.Use)
	}
	credential := "login/" + found.ID.String()
	if !found.Token.IsZero() {
		credential = "token/" + found.Token.String() // so that all logins with one token share its limits
	}
	return control.Access{Actor: found.Actor, Credential: credential, Scopes: scopesOf(found.Scopes), Tenant: found.Tenant}, nil
}

// login returns the login of the request's cookie. It returns an error unless the login is active.
func (a *Access) login(r *http.Request) (*logins.Login, error) {
	d := currentLogin(r)
	if d == nil {
		return nil, unauthorized("log in to the console, or send a token: Authorization: Bearer og_...")
	}
	now := a.cfg.Now()
	found, err := a.logins.get(r.Context(), *d, a.peer(r), now)
	switch {
	case errors.Is(err, errNotFound):
		return nil, unauthorized("the login is over: log in again")
	case errors.Is(err, errTooMany):
		return nil, tooMany("too many unknown logins came in the last moment: try again in a few seconds")
	case err != nil:
		return nil, a.unavailable(r.Context(), err)
	case a.cfg.Logins.StateAt(found, now) != logins.Active:
		return nil, unauthorized("the login is over: log in again")
	}
	return found, nil
}

// use records that a token or a login was used. A failure is only logged, because authentication
// does not depend on the record.
func (a *Access) use(ctx context.Context, what string, id inbox.ID, now time.Time, record func(context.Context, inbox.ID, time.Time) error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if err := record(ctx, id, now); err != nil {
		a.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "recording a use failed", slog.String("of", what), slog.Any("error", err))
	}
}

// scopesOf converts stored scopes. It drops scopes that this version does not know, so they permit
// nothing.
func scopesOf(stored []string) control.Scopes {
	var scopes control.Scopes
	for _, name := range stored {
		if known := control.Scope(name); slices.Contains(control.KnownScopes(), known) {
			scopes = append(scopes, known)
		}
	}
	return scopes
}

func unauthorized(detail string) error {
	return &control.Problem{Code: control.CodeUnauthorized, Detail: detail}
}

func forbidden(detail string) error {
	return &control.Problem{Code: control.CodeForbidden, Detail: detail}
}

func tooMany(detail string) error {
	return &control.Problem{Code: control.CodeTooMany, Detail: detail}
}

// unavailable logs an internal error and returns a problem that does not say that access was
// denied.
func (a *Access) unavailable(ctx context.Context, err error) error {
	a.cfg.Logger.LogAttrs(ctx, slog.LevelError, "finding out who asks failed", slog.Any("error", err))
	return &control.Problem{Code: control.CodeUnavailable}
}
