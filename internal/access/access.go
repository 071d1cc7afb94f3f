// Package access says who asks. It finds the token of an API request or the login of a console
// request, and it serves the pages on which people log in and out: with a token, at an OpenID Connect
// provider, or with a link that works once. There is no password, and so no default one.
//
// [New] makes an [Access]. [Access.Authenticate] is asked for every request, [Access.Handler] serves
// /login and /logout, and [Access.Protect] refuses requests that another site has a browser make.
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
	// Tokens keeps the tokens.
	Tokens *tokens.Store

	// Logins keeps the logins of the console.
	Logins *logins.Store

	// URL is the address at which browsers reach the console, without a path, such as
	// https://oncegate.internal. OIDC requires it, and a proxy that ends TLS does. Empty means that
	// browsers reach the console on a loopback address.
	URL string

	// OIDC logs people in at an OpenID Connect provider; nil does not.
	OIDC *OIDC

	// Home is the path to which a browser goes after a login. It defaults to /.
	Home string

	// Page draws the page for logging in. It defaults to a plain page.
	Page func(w http.ResponseWriter, r *http.Request, status int, page LoginPage)

	// TrustedProxies are the networks whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix

	// Now is the clock; nil is time.Now.
	Now func() time.Time

	// Logger gets the refused logins; nil discards them.
	Logger *slog.Logger
}

// Access finds who asks. Its methods may be called at the same time.
type Access struct {
	cfg        Config
	url        *url.URL // nil where none is configured
	protection *http.CrossOriginProtection
	guesses    *guesses
	tokens     *lookups[*tokens.Token]
	logins     *lookups[*logins.Login]
	oidc       *identityProvider // nil where none is configured
}

// New checks the configuration and makes an Access. It asks neither the database nor the OpenID
// Connect provider, which need not be reachable yet.
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
		// Behind a proxy that changes the Host header, the browser's Origin is this one.
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
	})
	a.logins = newLookups(a.guesses, func(ctx context.Context, d digest) (*logins.Login, error) {
		found, err := cfg.Logins.Find(ctx, d)
		if errors.Is(err, logins.ErrNotFound) {
			err = errNotFound
		}
		return found, err
	})
	if cfg.OIDC != nil {
		if a.url == nil {
			return nil, errors.New("access: OIDC needs URL, the address to which the provider sends the browser back")
		}
		a.oidc = newIdentityProvider(*cfg.OIDC, a.url.JoinPath(callbackPath).String(), cfg.Now)
	}
	return a, nil
}

// Protect refuses requests that change something and that another site has a browser make.
func (a *Access) Protect(next http.Handler) http.Handler { return a.protection.Handler(next) }

// peer is who sent a request: the last address that no trusted proxy has.
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

// isLoopback reports whether a host, with or without a port, is this machine as its own browser
// names it.
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
