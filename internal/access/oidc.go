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

	"github.com/oncegate/oncegate/egress"
)

// OIDC says at which OpenID Connect provider people log in, and what they may do then.
type OIDC struct {
	// Issuer is the provider's address, exactly as its identity tokens name it.
	Issuer string

	// ClientID and ClientSecret are what the provider knows this installation by. A public client has
	// no secret.
	ClientID, ClientSecret string

	// Scopes are asked for beside openid.
	Scopes []string

	// Claim is the member of the identity token that says who belongs to which role: a text or a list of
	// texts. Dots lead into nested members, unless a member has the whole name.
	Claim string

	// Roles say what whoever has a value of the claim may do. The first that fits counts. Whoever has none
	// of the values is not logged in: there is no default.
	Roles []Role

	// Allow are the private networks in which the provider may be.
	Allow []netip.Prefix

	// Resolver looks the provider's name up. It defaults to the standard library's.
	Resolver *net.Resolver
}

// Role is what the people with one value of the claim may do.
type Role struct {
	Value  string
	Scopes []string
	Tenant string
}

const (
	// providerTimeout bounds one request to the provider.
	providerTimeout = 10 * time.Second
	// providerFresh is for how long what the provider says about itself is believed.
	providerFresh = time.Hour
	// maxProviderAnswer bounds an answer of the provider, in bytes.
	maxProviderAnswer = 1 << 20
)

// identityProvider asks an OpenID Connect provider who somebody is.
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
		Proxy:                  nil, // a proxy would dial in our stead, unguarded
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

// boundedAnswers cuts answers off that are too long: the libraries read them whole.
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

// providerError means that the provider could not be asked, or gave an answer that cannot be used. Anybody may
// see what happened. Why it did is for the log: it is about the provider and the network.
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

// discovered gives what the provider says about itself, which is read at the first login and from time
// to time. While it cannot be read again, what it said before holds.
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
		p.readAt = now.Add(time.Minute - providerFresh) // not for each login while it is away
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

// withoutBody keeps the kind of an error and leaves out what the provider answered, which may be long and
// may hold anything.
func withoutBody(err error) error {
	if mismatch, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return fmt.Errorf("it calls itself %q: write console.oidc.issuer so", mismatch.Discovered)
	}
	if asked, ok := errors.AsType[*url.Error](err); ok {
		return asked.Err
	}
	return errors.New("its answer is not that of a provider")
}

// config is what the authorization and the exchange are made of.
func (p *identityProvider) config(found *oidc.Provider, style oauth2.AuthStyle) *oauth2.Config {
	endpoint := found.Endpoint()
	endpoint.AuthStyle = style
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: endpoint, RedirectURL: p.redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
	}
}

// authorization is the address at which the provider asks the person.
func (p *identityProvider) authorization(ctx context.Context, f flow) (string, error) {
	found, style, err := p.discovered(ctx)
	if err != nil {
		return "", err
	}
	return p.config(found, style).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// identify exchanges the code for an identity token and verifies that: its signature, issuer, audience,
// expiry and nonce.
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
