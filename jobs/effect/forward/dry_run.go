package forward

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/jobs/effect"
)

// HeaderDryRun is the id of a dry run. Every dry run has it, and no attempt does.
const HeaderDryRun = "Oncegate-Dry-Run" // an interface: never change

// DryRunnerConfig configures a [DryRunner]. URL and Real are required.
type DryRunnerConfig struct {
	// URL is where the target is asked what it would do. Its path and its query may contain expressions in braces, as
	// in [Config]. Values computes them. They do not see an idempotency key.
	URL    string
	Values map[string]Value

	// Method is GET, POST, PUT or PATCH. It defaults to POST.
	Method string

	// Headers are sent with every question. The target's own headers are not.
	Headers map[string]string

	// Body computes the body to send instead of the one that an attempt would send. nil sends that one. A GET has no
	// body.
	Body func(call *effect.Call) ([]byte, error)

	// Sign are the secrets of the target. A dry run is signed like an attempt, with the question's id.
	Sign []string

	// Real is the target itself. None of its settings are sent. A dry run that is the same request is refused.
	Real *Config

	// Allow are private networks that the host name may resolve to.
	Allow []netip.Prefix

	// Resolver resolves the host name. It defaults to the standard library's.
	Resolver *net.Resolver

	// Timeout bounds one question. It defaults to 10 s.
	Timeout time.Duration

	// Now returns the time of the signature. It defaults to time.Now.
	Now func() time.Time
}

// DryRunner is an [effect.DryRunner] over HTTP. It follows no redirect, uses no proxy and asks once. It makes its
// request only from what the configuration declares for it. It knows the target's address only to compare with it.
type DryRunner struct {
	cfg       DryRunnerConfig
	url       *url.URL
	template  *template
	keys      [][]byte
	alike     bool   // no header distinguishes a dry run from an attempt
	work      string // where the target does the work, as plainURL spells it; expressions are unchanged
	transport *http.Transport
}

var _ effect.DryRunner = (*DryRunner)(nil)

// ErrSameRequest means that a dry run would be the request that does the work. Operators see it.
var ErrSameRequest = errors.New("dry_run is the request that does the work: give it a different url, method, header or body")

var errKeyless = errors.New("a dry run carries no idempotency key")

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
	if d.url != nil && hasDotStep(d.url.Path) { // many servers resolve them, so one path would have many spellings
		errs = append(errs, errors.New("url: . and .. may not be steps of the path"))
	}
	for name, value := range cfg.Headers {
		switch canonical := http.CanonicalHeaderKey(name); {
		case !validName(name) || !validValue(value):
			errs = append(errs, fmt.Errorf("header %q is not valid", name))
		case cfg.Real != nil && strings.EqualFold(name, keyHeader(cfg.Real)), strings.EqualFold(name, DefaultKeyHeader):
			errs = append(errs, fmt.Errorf("header %s: %w", canonical, errKeyless))
		case own(canonical), strings.HasPrefix(canonical, "Webhook-"):
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
	d.cfg.Real = nil // from here on the DryRunner has nothing with which it could send the effect
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
