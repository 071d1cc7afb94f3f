// Package listing asks a sender's API which events there were, and for one more delivery of an event. The
// requests are data of the catalogue ([providers.Listing]). This package sends them: to the host of the
// list alone, over TLS, with the source's credential, no faster than the sender allows.
//
// What comes from there is genuine because of its origin: the connection to the host, which nothing but
// the configuration chooses. It therefore follows no redirect and no address to another host.
package listing

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/internal/sleep"
	"github.com/oncegate/oncegate/providers"
)

// Config configures a [Client]. Listing, Credential and CredentialName are required.
type Config struct {
	Listing *providers.Listing

	// Credential proves who asks, and CredentialName is where it comes from, such as env:STRIPE_KEY.
	// Errors contain only the name.
	Credential     []byte
	CredentialName string

	// Allow lists networks that may be asked although they are not public.
	Allow []netip.Prefix

	// Roots replaces the system's root certificates.
	Roots *x509.CertPool

	// Timeout limits one request. It defaults to 30 s.
	Timeout time.Duration

	// MaxAnswer is the largest answer, in bytes. It defaults to 32 MiB.
	MaxAnswer int64

	// Now defaults to time.Now.
	Now func() time.Time

	// Sleep waits between requests. It defaults to [sleep.For].
	Sleep func(ctx context.Context, d time.Duration) error
}

const (
	// attempts is how often a request is sent that the sender did not answer, or answered with 429 or
	// a 5xx.
	attempts = 3

	// longestWait is the longest Retry-After that a run waits for. The sender is asked later instead.
	longestWait = 2 * time.Minute
)

// Client sends the requests of one list. It is not safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client
	last time.Time // when the last request was sent

	token *oauth2.Token     // of oauth; nil before the first request
	key   *ecdsa.PrivateKey // of jwt
}

// Error is a request that failed. It never contains the credential, an address or the sender's answer.
type Error struct {
	// Status is the sender's answer; 0 if it did not answer.
	Status int

	// Later says that the same request may succeed later.
	Later bool

	text string
	err  error
}

// Error says what failed and what to do about it.
func (e *Error) Error() string { return e.text }

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.err }

// New returns a Client.
func New(cfg Config) (*Client, error) {
	if cfg.Listing == nil || len(cfg.Credential) == 0 || cfg.CredentialName == "" {
		return nil, errors.New("listing: Listing, Credential and CredentialName are required")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.MaxAnswer == 0 {
		cfg.MaxAnswer = 32 << 20
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Sleep == nil {
		cfg.Sleep = sleep.For
	}
	key, err := cfg.Listing.CheckCredential(cfg.Credential)
	if err != nil {
		return nil, &Error{text: cfg.CredentialName + " " + err.Error()}
	}
	guard := egress.New(egress.Config{Allow: append(egress.Named(cfg.Listing.Hostname()), cfg.Allow...)})
	return &Client{cfg: cfg, key: key, http: &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would connect for us, without the guard
			DialContext:            guard.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: cfg.Roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			IdleConnTimeout:        time.Minute,
			MaxIdleConnsPerHost:    1,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Page returns a page of the events created from since to until. An error of the sender is an [*Error].
func (c *Client) Page(ctx context.Context, since, until time.Time, cursor string) (*providers.ListedPage, error) {
	request, err := c.cfg.Listing.Request(since, until, cursor)
	if err != nil {
		return nil, err
	}
	answer, header, err := c.send(ctx, request)
	if err != nil {
		return nil, err
	}
	page, err := c.cfg.Listing.Page(answer, header, c.cfg.Now())
	if err != nil {
		return nil, &Error{Status: http.StatusOK, text: c.cfg.Listing.Host() + ": " + err.Error(), err: err}
	}
	return page, nil
}

// Redeliver asks the sender to deliver an event again.
func (c *Client) Redeliver(ctx context.Context, delivery string) error {
	_, _, err := c.send(ctx, c.cfg.Listing.Redelivery(delivery))
	return err
}

// send sends a request until it is answered, at most [attempts] times.
func (c *Client) send(ctx context.Context, request *providers.ListRequest) (answer []byte, header http.Header, err error) {
	for attempt := 1; ; attempt++ {
		if err := c.pace(ctx); err != nil {
			return nil, nil, err
		}
		var failed *Error
		var wait time.Duration
		answer, header, wait, failed = c.attempt(ctx, request)
		switch {
		case failed == nil:
			return answer, header, nil
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case !failed.Later || attempt == attempts:
			return nil, nil, failed
		}
		if wait == 0 {
			wait = time.Second << (2 * (attempt - 1))
		}
		if wait > longestWait {
			failed.text += fmt.Sprintf("; it asks for a pause of %s", wait)
			return nil, nil, failed
		}
		if err := c.cfg.Sleep(ctx, wait); err != nil {
			return nil, nil, err
		}
	}
}

// pace waits until the sender allows the next request.
func (c *Client) pace(ctx context.Context) error {
	rate := c.cfg.Listing.Spec().Rate
	if rate.Requests > 0 && !c.last.IsZero() {
		next := c.last.Add(time.Duration(rate.Per) / time.Duration(rate.Requests))
		if err := c.cfg.Sleep(ctx, next.Sub(c.cfg.Now())); err != nil {
			return err
		}
	}
	c.last = c.cfg.Now()
	return nil
}

func (c *Client) attempt(ctx context.Context, request *providers.ListRequest) ([]byte, http.Header, time.Duration, *Error) {
	host := c.cfg.Listing.Host()
	req, err := http.NewRequestWithContext(ctx, request.Method, request.URL, bytes.NewReader(request.Body))
	if err != nil {
		return nil, nil, 0, &Error{text: host + ": the address of the request is not valid; check base and params"}
	}
	req.Header = request.Header.Clone()
	req.Header.Set("User-Agent", "oncegate")
	if failed := c.authorize(ctx, req); failed != nil {
		return nil, nil, 0, failed
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return nil, nil, 0, c.unanswered(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if failed := c.refused(answer); failed != nil {
		return nil, nil, retryAfter(answer.Header, c.cfg.Now()), failed
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, c.cfg.MaxAnswer+1))
	if err != nil {
		return nil, nil, 0, &Error{Later: true, text: fmt.Sprintf("reading the answer of %s: %v", host, err), err: err}
	}
	if int64(len(body)) > c.cfg.MaxAnswer {
		return nil, nil, 0, &Error{Status: answer.StatusCode, text: fmt.Sprintf("%s answered with more than %d MiB", host, c.cfg.MaxAnswer>>20)}
	}
	return body, answer.Header, 0, nil
}

// unanswered returns the error of a request without an answer.
func (c *Client) unanswered(err error) *Error {
	if asked, ok := errors.AsType[*url.Error](err); ok {
		err = asked.Err // without the address
	}
	return &Error{Later: !errors.Is(err, egress.ErrRefused), text: fmt.Sprintf("asking %s: %v", c.cfg.Listing.Host(), err), err: err}
}

// refused returns an error for an answer that is not 2xx.
func (c *Client) refused(answer *http.Response) *Error {
	host, status := c.cfg.Listing.Host(), answer.StatusCode
	said := fmt.Sprintf("%s answered %d %s", host, status, http.StatusText(status))
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden && !limited(answer.Header):
		return &Error{Status: status, text: fmt.Sprintf("%s: it does not accept the credential %s, or the credential may not read events", said, c.cfg.CredentialName)}
	case status == http.StatusTooManyRequests, status == http.StatusForbidden, status >= 500:
		return &Error{Status: status, Later: true, text: said}
	case status >= 300 && status < 400:
		return &Error{Status: status, text: said + ": a redirect is not followed, because the events must come from this host; check base"}
	case status == http.StatusNotFound:
		return &Error{Status: status, text: said + ": check base and params"}
	}
	return &Error{Status: status, text: said}
}

// LogValue shows the error without its cause.
func (e *Error) LogValue() slog.Value { return slog.StringValue(e.text) }
