package access

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/oncegate/oncegate/internal/egress"
)

// OIDC configures logins at an OpenID Connect provider, and what people may do after such a login.
type OIDC struct {
	// Issuer is the provider's address, exactly as it appears in identity tokens.
	Issuer string

	// ClientID and ClientSecret identify this installation to the provider. A public client has no
	// secret.
	ClientID, ClientSecret string

	// Scopes are requested in addition to openid.
	Scopes []string

	// Claim is the claim of the identity token that determines a person's role: a string or a list
	// of strings. Dots separate the names of nested members, unless one member has the whole name.
	Claim string

	// Roles maps values of the claim to access. The first role whose value the person has applies.
	// A person without any of the values is not logged in; there is no default role.
	Roles []Role

	// Allow lists private networks in which the provider may be.
	Allow []netip.Prefix

	// Resolver resolves the provider's name. It defaults to the standard library's.
	Resolver *net.Resolver
}

// Role is the access of people who have one value of the claim.
type Role struct {
	Value  string
	Scopes []string
	Tenant string
}

const (
	// providerTimeout limits one request to the provider.
	providerTimeout = 10 * time.Second
	// providerFresh is how long the provider's metadata is used before it is read again.
	providerFresh = time.Hour
	// maxProviderAnswer is the maximum size of a response from the provider, in bytes.
	maxProviderAnswer = 1 << 20
)

// identityProvider is a client of an OpenID Connect provider.
type identityProvider struct {
	cfg      OIDC
	redirect string
	client   *http.Client
	now      func() time.Time

	mu       sync.Mutex
	provider *oidc.Provider
	style    oauth2.AuthStyle
	readAt   time.Time
}

func newIdentityProvider(cfg OIDC, redirect string, now func() time.Time) *identityProvider {
	allow := slices.Clone(cfg.Allow)
	if at, err := url.Parse(cfg.Issuer); err == nil {
		allow = append(allow, egress.Named(at.Hostname())...)
	}
	guard := egress.New(egress.Config{Allow: allow, Timeout: providerTimeout, Resolver: cfg.Resolver})
	transport := &http.Transport{
		Proxy:                  nil, // a proxy would make the connection, and guard could not check the address
		DialContext:            guard.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    providerTimeout,
		ResponseHeaderTimeout:  providerTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
	}
	return &identityProvider{cfg: cfg, redirect: redirect, now: now, client: &http.Client{
		Timeout:       providerTimeout,
		Transport:     boundedAnswers{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// boundedAnswers truncates responses that are too long, because the libraries read them completely.
type boundedAnswers struct{ next http.RoundTripper }

func (b boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, maxProviderAnswer), answer.Body}
	return answer, nil
}

// providerError means that the provider did not respond, or that its response was unusable. The
// field what may be shown to anyone. The field why belongs in the log because it describes the
// provider and the network.
type providerError struct {
	what string
	why  error
}

func (e *providerError) Error() string {
	if e.why == nil {
		return "the OpenID Connect provider " + e.what
	}
	return "the OpenID Connect provider " + e.what + ": " + e.why.Error()
}

func (e *providerError) Unwrap() error { return e.why }

// discovered returns the provider's metadata. It reads them at the first login and again after
// providerFresh. If reading them again fails, it returns the previous metadata.
func (p *identityProvider) discovered(ctx context.Context) (*oidc.Provider, oauth2.AuthStyle, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.provider != nil && now.Sub(p.readAt) < providerFresh {
		return p.provider, p.style, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.cfg.Issuer)
	var said struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err == nil {
		err = found.Claims(&said)
	}
	switch {
	case err != nil && p.provider != nil:
		p.readAt = now.Add(time.Minute - providerFresh) // retry after a minute, not at each login
		return p.provider, p.style, nil
	case err != nil:
		return nil, 0, &providerError{"cannot be asked about itself", withoutBody(err)}
	}
	p.provider, p.readAt, p.style = found, now, oauth2.AuthStyleInHeader
	if len(said.Methods) > 0 && !slices.Contains(said.Methods, "client_secret_basic") || p.cfg.ClientSecret == "" {
		p.style = oauth2.AuthStyleInParams
	}
	return p.provider, p.style, nil
}

// withoutBody keeps the kind of an error and omits the provider's response, which may be long and
// contain anything.
func withoutBody(err error) error {
	if mismatch, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return fmt.Errorf("it calls itself %q: write console.oidc.issuer so", mismatch.Discovered)
	}
	if asked, ok := errors.AsType[*url.Error](err); ok {
		return asked.Err
	}
	return errors.New("its answer is not a provider's")
}

// config returns the configuration for the authorization request and the code exchange.
func (p *identityProvider) config(found *oidc.Provider, style oauth2.AuthStyle) *oauth2.Config {
	endpoint := found.Endpoint()
	endpoint.AuthStyle = style
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: endpoint, RedirectURL: p.redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
	}
}

// authorization returns the address at which the provider authenticates the person.
func (p *identityProvider) authorization(ctx context.Context, f flow) (string, error) {
	found, style, err := p.discovered(ctx)
	if err != nil {
		return "", err
	}
	return p.config(found, style).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// identify exchanges the code for an identity token and verifies the token's signature, issuer,
// audience, expiry and nonce.
func (p *identityProvider) identify(ctx context.Context, code string, f flow) (*oidc.IDToken, error) {
	found, style, err := p.discovered(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	answer, err := p.config(found, style).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return nil, &providerError{what: "refused the code: " + short(refused.ErrorCode)}
	}
	if err != nil {
		return nil, &providerError{"did not exchange the code", withoutBody(err)}
	}
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return nil, &providerError{what: "gave no identity token"}
	}
	identity, err := found.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return nil, &providerError{"gave an identity token that does not verify", errors.New(short(err.Error()))}
	}
	if !equal(identity.Nonce, f.Nonce) {
		return nil, &providerError{what: "gave an identity token that was made for another login"}
	}
	return identity, nil
}
