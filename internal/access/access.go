// Package access authenticates requests. It finds the token of an API request or the login of a
// console request, and it serves the pages on which people log in and out: with a token, at an
// OpenID Connect provider, or with a link that works once. There are no passwords, and so no
// default password.
//
// [New] returns an [Access]. Call [Access.Authenticate] for every request and mount
// [Access.Handler] for /login and /logout. [Access.Protect] refuses state-changing requests that a
// page of another site makes the browser send.
package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
)

// Config configures an [Access]. Tokens and Logins are required.
type Config struct {
	// Tokens stores the tokens.
	Tokens *tokens.Store

	// Logins stores the logins of the console.
	Logins *logins.Store

	// URL is the address at which browsers reach the console, without a path, such as
	// https://oncegate.internal. It is required for OIDC and if a proxy terminates TLS.
	// Empty means that browsers reach the console on a loopback address.
	URL string

	// OIDC configures logins at an OpenID Connect provider. Nil disables them.
	OIDC *OIDC

	// Home is the path to which a browser is sent after a login. It defaults to /.
	Home string

	// Page writes the login page. It defaults to a plain page.
	Page func(w http.ResponseWriter, r *http.Request, status int, page LoginPage)

	// TrustedProxies are the networks of proxies whose X-Forwarded-For header is trusted.
	TrustedProxies []netip.Prefix

	// Now returns the current time. It defaults to time.Now.
	Now func() time.Time

	// Logger receives a record of each login and each refused login. Nil discards them.
	Logger *slog.Logger
}

// Access authenticates requests. It is safe for concurrent use.
type Access struct {
	cfg        Config
	url        *url.URL // nil if none is configured
	protection *http.CrossOriginProtection
	guesses    *guesses
	tokens     *lookups[*tokens.Token]
	logins     *lookups[*logins.Login]
	oidc       *identityProvider // nil if none is configured
}

// New checks the configuration and returns an Access. It contacts neither the database nor the
// OpenID Connect provider, so they need not be reachable yet.
func New(cfg Config) (*Access, error) {
	if cfg.Tokens == nil || cfg.Logins == nil {
		return nil, errors.New("access: Tokens and Logins are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Home == "" {
		cfg.Home = "/"
	}
	if cfg.Page == nil {
		cfg.Page = drawLoginPage
	}
	a := &Access{cfg: cfg, protection: http.NewCrossOriginProtection(), guesses: newGuesses()}
	if cfg.URL != "" {
		at, err := url.Parse(cfg.URL)
		if err != nil {
			return nil, fmt.Errorf("access: URL: %w", err)
		}
		a.url = &url.URL{Scheme: at.Scheme, Host: at.Host}
		// If a proxy changes the Host header, the browser still sends this address as Origin.
		if err := a.protection.AddTrustedOrigin(a.url.String()); err != nil {
			return nil, fmt.Errorf("access: URL: %w", err)
		}
	}
	a.tokens = newLookups(a.guesses, func(ctx context.Context, d digest) (*tokens.Token, error) {
		found, err := cfg.Tokens.Find(ctx, d)
		if errors.Is(err, tokens.ErrNotFound) {
			err = errNotFound
		}
		return found, err
	}, cfg.Tokens.Digests)
	a.logins = newLookups(a.guesses, func(ctx context.Context, d digest) (*logins.Login, error) {
		found, err := cfg.Logins.Find(ctx, d)
		if errors.Is(err, logins.ErrNotFound) {
			err = errNotFound
		}
		return found, err
	}, cfg.Logins.Digests)
	if cfg.OIDC != nil {
		if a.url == nil {
			return nil, errors.New("access: OIDC needs URL, the address to which the provider sends the browser back")
		}
		a.oidc = newIdentityProvider(*cfg.OIDC, a.url.JoinPath(callbackPath).String(), cfg.Now)
	}
	return a, nil
}

// Protect refuses state-changing requests that a page of another site makes the browser send.
func (a *Access) Protect(next http.Handler) http.Handler { return a.protection.Handler(next) }

// peer returns the address of the client: the last address in the chain that is not a trusted
// proxy's.
func (a *Access) peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	peer := at.Addr().Unmap()
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(forwarded) - 1; i >= 0 && a.isProxy(peer); i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(forwarded[i]))
		if err != nil {
			break
		}
		peer = next.Unmap()
	}
	return peer
}

func (a *Access) isProxy(addr netip.Addr) bool {
	for _, network := range a.cfg.TrustedProxies {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// isLoopback reports whether a host, with or without a port, is localhost or a loopback address.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
