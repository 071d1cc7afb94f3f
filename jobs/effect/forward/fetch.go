package forward

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/internal/pgtext"
	"github.com/oncegate/oncegate/jobs/effect"
)

// The defaults and the bound of a [FetcherConfig].
const (
	DefaultFetchTimeout = 10 * time.Second
	DefaultFetchSize    = 256 << 10
	MaxFetchSize        = 8 << 20
)

// FetcherConfig configures a [Fetcher]. URL is required.
type FetcherConfig struct {
	// URL is the address of the GET request. Its path and its query may contain expressions in braces, as in
	// [Config]. An address that is one expression, "{body.resource_url}", is the expression's value: then Hosts is
	// required, and the value is not escaped but must be an address at one of them.
	URL string

	// Values computes the expressions in URL, by their texts.
	Values map[string]Value

	// Hosts are the only servers that the request may go to: "api.example", "api.example:8443", or
	// "http://localhost:9000" to allow a connection without TLS. "*.shop.example" is every host below shop.example. It
	// defaults to the server of URL.
	Hosts []string

	// Headers are sent with the request.
	Headers map[string]string

	// Bearer returns the token of the header Authorization. The fetcher calls it for each request, so that a token that
	// expires can be replaced. Its error must not quote the token. nil sends no token.
	Bearer func() (string, error)

	// Allow are private networks that the host names may resolve to. An address that is written out in URL or Hosts is
	// allowed, unless it is one that no request may go to.
	Allow []netip.Prefix

	// MaxSize bounds the answer in bytes. 0 is the default of 256 KiB; it is at most 8 MiB.
	MaxSize int64

	// Timeout bounds one request with its answer. 0 is the default of 10 s.
	Timeout time.Duration

	// Resolver resolves the host names. It defaults to the standard library's.
	Resolver *net.Resolver

	// Now returns the time with which a Retry-After date is compared. It defaults to time.Now.
	Now func() time.Time
}

// Fetcher is an [effect.Fetcher] over HTTP. It follows no redirect and uses no proxy.
type Fetcher struct {
	cfg       FetcherConfig
	template  *template
	whole     bool // the address is the value of one expression
	hosts     []fetchHost
	transport *http.Transport
}

var _ effect.Fetcher = (*Fetcher)(nil)

// NewFetcher makes a Fetcher, or reports everything that is wrong with cfg.
func NewFetcher(cfg FetcherConfig) (*Fetcher, error) {
	f := &Fetcher{cfg: cfg}
	errs := f.readAddress()
	for name, value := range cfg.Headers {
		switch {
		case !validName(name) || !validValue(value):
			errs = append(errs, fmt.Errorf("header %q is not valid", name))
		case cfg.Bearer != nil && http.CanonicalHeaderKey(name) == "Authorization":
			errs = append(errs, errors.New("bearer and the header Authorization exclude each other"))
		}
	}
	if cfg.Timeout < 0 || cfg.MaxSize < 0 || cfg.MaxSize > MaxFetchSize {
		errs = append(errs, fmt.Errorf("timeout must not be negative, and max_size must be at most %d bytes", MaxFetchSize))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		f.cfg.Timeout = DefaultFetchTimeout
	}
	if cfg.MaxSize == 0 {
		f.cfg.MaxSize = DefaultFetchSize
	}
	if cfg.Now == nil {
		f.cfg.Now = time.Now
	}
	allow := slices.Clone(cfg.Allow)
	for _, host := range f.hosts {
		allow = append(allow, host.named()...)
	}
	f.transport = &http.Transport{
		DialContext:            egress.New(egress.Config{Allow: allow, Resolver: cfg.Resolver}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxReply,
		DisableCompression:     true,
	}
	return f, nil
}

// Close closes the connections kept to the servers.
func (f *Fetcher) Close() { f.transport.CloseIdleConnections() }

// Fetch implements [effect.Fetcher].
func (f *Fetcher) Fetch(ctx context.Context, call *effect.Call) ([]byte, effect.Result) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	address, err := f.address(call)
	if err != nil {
		r := effect.Result{Outcome: effect.Dead, Reason: reasons.Mapping, Cause: "url: " + err.Error()}
		if errors.Is(err, errFetchAddress) || errors.Is(err, errFetchHost) {
			r.Reason = reasons.Address
		}
		return nil, r
	}
	var stage stage
	req, err := http.NewRequestWithContext(stage.trace(ctx), http.MethodGet, address, nil)
	if err != nil {
		return nil, effect.Result{Outcome: effect.Dead, Reason: reasons.Address, Cause: errFetchAddress.Error()}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "Oncegate")
	for name, value := range f.cfg.Headers {
		req.Header.Set(name, value)
	}
	token, err := f.bearer(req)
	if err != nil {
		return nil, effect.Result{Outcome: effect.Retry, Reason: reasons.Handler, Cause: "bearer: " + err.Error()}
	}
	reply, err := exchange(f.transport, req)
	if err != nil {
		r := failure(ctx, err, &stage)
		r.Outcome = effect.Retry // even if the server got the request, the target got none
		return nil, r
	}
	defer reply.Body.Close()
	return f.answer(ctx, reply, token)
}

// bearer sets the token of a request and returns it.
func (f *Fetcher) bearer(req *http.Request) (string, error) {
	if f.cfg.Bearer == nil {
		return "", nil
	}
	token, err := f.cfg.Bearer()
	if err == nil && (token == "" || !validValue(token)) {
		err = errors.New("the token is empty or has a control character")
	}
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return token, nil
}

// answer reads and classifies a reply.
func (f *Fetcher) answer(ctx context.Context, reply *http.Response, token string) ([]byte, effect.Result) {
	status := reply.StatusCode
	body, err := io.ReadAll(io.LimitReader(reply.Body, f.cfg.MaxSize+1))
	if status < 200 || status > 299 {
		return nil, f.refusal(reply, body, token)
	}
	r := effect.Result{Outcome: effect.Dead, Code: strconv.Itoa(status), Reason: reasons.Reply}
	switch {
	case int64(len(body)) > f.cfg.MaxSize:
		r.Cause = fmt.Sprintf("the answer is longer than max_size, %d bytes", f.cfg.MaxSize)
	case err != nil:
		r = failure(ctx, err, wroteAll())
		r.Outcome, r.Code = effect.Retry, strconv.Itoa(status)
	case !utf8.Valid(body) || !json.Valid(body):
		r.Cause = fmt.Sprintf("the answer is not JSON: %d bytes", len(body))
	default:
		return body, effect.Result{Outcome: effect.Done, Code: r.Code}
	}
	return nil, r
}

// refusal classifies an answer that is no success. An answer that says something about the server, and not about the
// request, is retried.
func (f *Fetcher) refusal(reply *http.Response, body []byte, token string) effect.Result {
	status := reply.StatusCode
	r := effect.Result{Outcome: effect.Dead, Reason: reasonOf(status), Code: strconv.Itoa(status)}
	switch {
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		r.Outcome = effect.Retry
		r.RetryAfter = retryAfter(reply.Header.Get("Retry-After"), f.cfg.Now())
	}
	r.Cause = fmt.Sprintf("it was answered with %d: %s", status, meaning(status))
	body = withoutSecrets(body[:min(len(body), maxReply)], nil, nil, f.cfg.Headers)
	if token != "" {
		body = withoutSecrets(body, nil, nil, map[string]string{"Authorization": token})
	}
	if len(body) > 0 {
		r.Excerpt = pgtext.Clean("fetch: "+r.Cause+": "+string(body), effect.MaxExcerpt)
	}
	return r
}

// meaning says what an operator can do about a status.
func meaning(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "the credential is missing, wrong or has expired"
	case status == http.StatusForbidden:
		return "the credential may not read it"
	case status == http.StatusNotFound, status == http.StatusGone:
		return "what the event names does not exist there, or no longer"
	case status == http.StatusTooManyRequests:
		return "the server asks for fewer requests"
	case status >= 300 && status <= 399:
		return "redirects are not followed; name the final address"
	case status >= 500:
		return "the server has a problem"
	}
	return "the server refuses the request"
}

func wroteAll() *stage {
	s := &stage{}
	s.wrote.Store(true)
	return s
}

// address returns where a call's request goes.
func (f *Fetcher) address(call *effect.Call) (string, error) {
	if !f.whole {
		return f.template.fill(call)
	}
	place := f.template.places[0]
	value, err := place.value(call)
	if err != nil {
		return "", fmt.Errorf("%s: %w", place.expression, err)
	}
	u, err := url.Parse(value)
	switch {
	case err != nil, len(value) > maxAddress, u.Host == "", u.User != nil, u.Fragment != "":
		return "", fmt.Errorf("%s: %w", place.expression, errFetchAddress)
	case !slices.ContainsFunc(f.hosts, func(h fetchHost) bool { return h.matches(u) }):
		return "", fmt.Errorf("%s: %w", place.expression, errFetchHost)
	}
	return u.String(), nil
}
