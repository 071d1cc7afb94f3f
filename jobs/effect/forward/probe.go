package forward

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
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/jobs/effect"
)

// ProberConfig configures a [Prober]. URL is required.
type ProberConfig struct {
	// URL is the address of the GET request. In its path and query, {key} is replaced with the idempotency key,
	// {event} with our id of the event and {event_id} with the provider's. It needs at least one of them.
	URL string

	// Headers are sent along.
	Headers map[string]string

	// Done are the statuses that mean that it has happened, 200 by default. Absent are those that mean that it has
	// not, 404 by default. Any other status means nothing.
	Done, Absent []int

	// Allow are private networks that the host name may resolve to.
	Allow []netip.Prefix

	// Resolver resolves the host name. It defaults to the standard library's.
	Resolver *net.Resolver

	// Timeout bounds one question. It defaults to 10 s.
	Timeout time.Duration
}

// Prober is an [effect.Prober] over HTTP. It follows no redirect and uses no proxy.
type Prober struct {
	cfg       ProberConfig
	transport *http.Transport
}

var _ effect.Prober = (*Prober)(nil)

// NewProber makes a Prober, or reports everything that is wrong with cfg.
func NewProber(cfg ProberConfig) (*Prober, error) {
	var errs []error
	if !strings.Contains(cfg.URL, "{key}") && !strings.Contains(cfg.URL, "{event}") && !strings.Contains(cfg.URL, "{event_id}") {
		errs = append(errs, errors.New("probe url names no effect: want {key}, {event} or {event_id}"))
	}
	if u, err := targetURL(fill(cfg.URL, "k", "e", "i")); err != nil {
		errs = append(errs, fmt.Errorf("probe %w", err))
	} else if plain, _ := url.Parse(fill(cfg.URL, "x", "x", "x")); plain == nil || plain.Host != u.Host {
		errs = append(errs, errors.New("probe url: the host must be the same for every effect"))
	}
	for name, value := range cfg.Headers {
		if !validName(name) || !validValue(value) {
			errs = append(errs, fmt.Errorf("probe header %q is not valid", name))
		}
	}
	if len(cfg.Done) == 0 {
		cfg.Done = []int{http.StatusOK}
	}
	if len(cfg.Absent) == 0 {
		cfg.Absent = []int{http.StatusNotFound}
	}
	for _, status := range slices.Concat(cfg.Done, cfg.Absent) {
		if status < 200 || status > 599 {
			errs = append(errs, fmt.Errorf("probe status %d is none", status))
		}
	}
	for _, status := range cfg.Done {
		if slices.Contains(cfg.Absent, status) {
			errs = append(errs, fmt.Errorf("probe status %d cannot say both", status))
		}
	}
	if cfg.Timeout < 0 {
		errs = append(errs, errors.New("probe timeout must not be negative"))
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	named, _ := url.Parse(fill(cfg.URL, "k", "e", "i")) // parsed above
	guard := egress.New(egress.Config{Allow: append(egress.Named(named.Hostname()), cfg.Allow...), Resolver: cfg.Resolver})
	return &Prober{cfg: cfg, transport: &http.Transport{
		DialContext:            guard.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxReply,
		DisableCompression:     true,
	}}, nil
}

// fill puts the values into the template, each escaped as one part of a path or query.
func fill(template, key, event, eventID string) string {
	return strings.NewReplacer("{key}", url.PathEscape(key), "{event_id}", escapePart(eventID), "{event}", url.PathEscape(event)).Replace(template)
}

// escapePart escapes the characters that could end a path or query part, and the dots, because a dot segment would
// climb.
func escapePart(s string) string {
	return strings.NewReplacer("+", "%2B", "&", "%26", "=", "%3D", ".", "%2E").Replace(url.PathEscape(s))
}

// Probe implements [effect.Prober]. Only the status line decides. If the target has done the effect, its answer is
// kept, up to 64 KiB of valid UTF-8.
func (p *Prober) Probe(ctx context.Context, call *effect.Call) effect.ProbeResult {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	address := fill(p.cfg.URL, call.Key, call.Event.ID, call.Event.EventID)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return effect.ProbeResult{Outcome: effect.ProbeUnknown}
	}
	for name, value := range p.cfg.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("User-Agent", "Oncegate")
	reply, err := exchange(p.transport, req)
	if err != nil {
		return effect.ProbeResult{Outcome: effect.ProbeUnknown}
	}
	defer reply.Body.Close()
	result := effect.ProbeResult{Outcome: effect.ProbeUnknown, Code: strconv.Itoa(reply.StatusCode)}
	switch {
	case slices.Contains(p.cfg.Done, reply.StatusCode):
		result.Outcome = effect.ProbeDone
		if body, err := io.ReadAll(io.LimitReader(reply.Body, maxReply+1)); err == nil && len(body) <= maxReply && utf8.Valid(body) {
			result.Stored = withoutSecrets(body, nil, nil, p.cfg.Headers)
		}
	case slices.Contains(p.cfg.Absent, reply.StatusCode):
		result.Outcome = effect.ProbeAbsent
	}
	return result
}

// Close closes the connections kept to the target.
func (p *Prober) Close() { p.transport.CloseIdleConnections() }
