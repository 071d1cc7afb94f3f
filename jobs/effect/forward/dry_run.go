package forward

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/egress"
	"github.com/oncegate/oncegate/jobs/effect"
)

// HeaderDryRun is the id of a dry run. It marks each of them, and no attempt carries it.
const HeaderDryRun = "Oncegate-Dry-Run" // an interface: never change

// DryRunnerConfig configures a [DryRunner]. URL and Real are required.
type DryRunnerConfig struct {
	// URL is where the target is asked what it would do. Expressions in braces may stand in its path and its query,
	// as in that of a [Config]; Values give what stands for them. They see no idempotency key.
	URL    string
	Values map[string]Value

	// Method is GET, POST, PUT or PATCH. It defaults to POST.
	Method string

	// Headers are sent along. Those of the target itself are not.
	Headers map[string]string

	// Body gives what is sent in the place of the body that an attempt would send; nil sends that one. A GET has no body.
	Body func(call *effect.Call) ([]byte, error)

	// Sign are the secrets of the target: a dry run is signed as an attempt is, under the question's id.
	Sign []string

	// Real is the target itself. Nothing of it is sent: a dry run that is the same request is refused.
	Real *Config

	// Allow are private networks that the name may lead to.
	Allow []netip.Prefix

	// Resolver looks the name up. It defaults to the standard library's.
	Resolver *net.Resolver

	// Timeout bounds one question. It defaults to 10 s.
	Timeout time.Duration

	// Now gives the time of the signature. It defaults to time.Now.
	Now func() time.Time
}

// DryRunner is an [effect.DryRunner] over HTTP. It follows no redirect, uses no proxy and asks once. It makes its request of what
// is declared for it: of the target it knows the address, and that only to compare with it.
type DryRunner struct {
	cfg       DryRunnerConfig
	url       *url.URL
	template  *template
	keys      [][]byte
	alike     bool   // nothing among the headers tells it from an attempt
	work      string // where the target does the work, in the spelling of plainURL; with expressions as they are written
	transport *http.Transport
}

var _ effect.DryRunner = (*DryRunner)(nil)

// ErrSameRequest says that a dry run would be the request that does the work. It is told to people.
var ErrSameRequest = errors.New("dry_run is the request that does the work: give it a url, a method, a header or a body of its own")

var errKeyless = errors.New("a dry run carries no idempotency key")

// ownHeaders are those that a request has anyway, or that the client of HTTP takes for itself: one of them tells nobody that
// nothing is meant to happen.
var ownHeaders = []string{"User-Agent", "Content-Type", "Content-Length", "Host", "Transfer-Encoding", "Trailer", "Connection", "Keep-Alive", "Te", "Upgrade", "Expect", "Content-Encoding", "Traceparent"}

// NewDryRunner makes a DryRunner, or reports everything that is wrong with cfg.
func NewDryRunner(cfg DryRunnerConfig) (*DryRunner, error) {
	d := &DryRunner{cfg: cfg}
	var errs []error
	var err error
	if cfg.Real == nil {
		errs = append(errs, errors.New("the target that it is a dry run of is missing"))
	}
	if d.template, d.url, err = targetTemplate(cfg.URL, cfg.Values); err != nil {
		errs = append(errs, err)
	}
	switch cfg.Method {
	case "":
		d.cfg.Method = http.MethodPost
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	case http.MethodGet:
		if cfg.Body != nil {
			errs = append(errs, errors.New("a GET has no body"))
		}
	default:
		errs = append(errs, fmt.Errorf("method %q: want GET, POST, PUT or PATCH", cfg.Method))
	}
	for i, secret := range cfg.Sign {
		key, err := signingKey(secret)
		if err != nil {
			errs = append(errs, fmt.Errorf("signing secret %d: %w", i+1, err))
		}
		d.keys = append(d.keys, key)
	}
	if d.url != nil && hasDotStep(d.url.Path) { // many servers resolve them, and the same place has many names then
		errs = append(errs, errors.New("url: . and .. may not be steps of the path"))
	}
	for name, value := range cfg.Headers {
		switch canonical := http.CanonicalHeaderKey(name); {
		case !validName(name) || !validValue(value):
			errs = append(errs, fmt.Errorf("header %q is not valid", name))
		case cfg.Real != nil && strings.EqualFold(name, keyHeader(cfg.Real)), strings.EqualFold(name, DefaultKeyHeader):
			errs = append(errs, fmt.Errorf("header %s: %w", canonical, errKeyless))
		case strings.HasPrefix(canonical, "Oncegate-"), strings.HasPrefix(canonical, "Webhook-"), slices.Contains(ownHeaders, canonical):
			errs = append(errs, fmt.Errorf("header %s is set by the dry run itself", canonical))
		}
	}
	if cfg.Timeout < 0 {
		errs = append(errs, errors.New("timeout must not be negative"))
	}
	if cfg.Timeout == 0 {
		d.cfg.Timeout = 10 * time.Second
	}
	if cfg.Now == nil {
		d.cfg.Now = time.Now
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	d.alike, d.work = addsNone(cfg.Headers, cfg.Real.Headers), plainAddress(cfg.Real.URL)
	if d.alike && cfg.Body == nil && d.cfg.Method == method(cfg.Real) && d.template.plain() == d.work {
		return nil, ErrSameRequest
	}
	d.cfg.Real = nil // from here on there is nothing with which the effect could be sent
	guard := egress.New(egress.Config{Allow: append(egress.Named(d.url.Hostname()), cfg.Allow...), Resolver: cfg.Resolver})
	d.transport = &http.Transport{
		DialContext:            guard.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxReply,
		DisableCompression:     true,
	}
	return d, nil
}

// Close closes the connections kept to the target.
func (d *DryRunner) Close() { d.transport.CloseIdleConnections() }
