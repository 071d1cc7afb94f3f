// Package fetch downloads the keys that some providers publish. It uses https only, contacts only
// the hosts that a provider names and only public addresses, limits size, time and rate, and caches
// the documents. It is the only package of the providers that opens a socket; verification calls it
// through [scheme.Fetcher]. With the same restrictions it asks a provider about a request
// ([scheme.Asker]).
//
// # What forged requests can cost
//
// Some requests name the document that verifies them, so an attacker can name a new document in
// each of a hundred requests a second. The package therefore distinguishes three kinds of
// documents. The first are those that the configuration names; the second are those that have
// verified a request (proven documents). The package fetches both without a budget: once an hour,
// and at most once a minute if a key is missing. The third kind are documents that a request names
// and that have verified nothing (unproven documents). They have a separate limit in the cache, a
// budget for each source, and a limit for all sources together, so they never evict the other
// kinds. A [Store] restores proven documents after a restart.
//
// The document of a sender's new key starts as an unproven one. The budget therefore has three
// lanes: for any request, for documents that were requested again after a deferral, and for clients
// from networks that have sent an authentic request. In each lane, one network of clients gets only
// a share. Forgeries that name a new document each time exhaust only the first lane, so a new key
// is fetched at the second delivery that names it. An attacker who repeats each address competes in
// the second lane, limited by the number of networks they control, and the third lane remains.
package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/providers/scheme"
)

// Config configures a Fetcher. Every field has a default.
type Config struct {
	// Now defaults to time.Now.
	Now func() time.Time

	// Resolve looks up the addresses of a host. It defaults to the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	// Allow lists ranges that the Fetcher may contact although they are not public, for a key store
	// in your own network. Link-local addresses and metadata services are always refused.
	Allow []netip.Prefix

	// Roots replaces the system's root certificates.
	Roots *x509.CertPool

	// Store restores proven documents after a restart. nil means that there is no store.
	Store Store

	// Keep is how long a copy is used without a new request. An older copy of a proven or
	// configured document is still used while the Fetcher requests a new one. It defaults to 1 h.
	Keep time.Duration

	// Stale is the age from which a copy is used only after an attempt to get a newer one. It
	// defaults to 24 h.
	Stale time.Duration

	// Pause is the shortest time between two attempts for one document, and therefore between two
	// renewals for an unknown key. It defaults to 1 min.
	Pause time.Duration

	// Timeout limits one attempt. It defaults to 10 s.
	Timeout time.Duration

	// AskTimeout limits a question to a provider, including its token. The sender waits during that
	// time. It defaults to 5 s.
	AskTimeout time.Duration

	// Rate is the number of unproven documents named by requests that a source may fetch in a
	// minute, a third of it in each lane. It defaults to 30, and is at least 3. All sources
	// together may fetch four times as many in the first lane.
	Rate int

	// Logger may be nil.
	Logger *slog.Logger
}

const (
	// maxDocument is the largest document that the configuration names, in bytes. It is large
	// because a set of keys may contain a chain of certificates for each key.
	maxDocument = 1 << 20

	// maxClaimed is the largest document that a request names, in bytes.
	maxClaimed = 64 << 10
)

// Fetcher downloads documents for all sources. Each source uses its own [Source]. It is safe for
// concurrent use.
type Fetcher struct {
	cfg    Config
	client *http.Client
	guard  *egress.Guard
	began  time.Time
	own    *Source // for callers without a source

	// ctx limits all attempts. Stop cancels it.
	ctx    context.Context //nolint:containedctx // an attempt serves every request that waits for it, so no request's context applies
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu        sync.Mutex
	documents documents
	sources   map[string]*Source
	open      lane   // the first lane, for all sources together
	putOff    sketch // the documents whose requests were deferred
	running   int    // attempts for unproven documents
	stats     Stats
	tokens    map[[sha256.Size]byte]*token

	saves     chan Copy
	questions chan struct{} // one entry for each running question
}

var (
	_ scheme.Fetcher   = (*Fetcher)(nil)
	_ scheme.Confirmer = (*Fetcher)(nil)
	_ scheme.Asker     = (*Fetcher)(nil)
)

var (
	errForbidden = errors.New("the address is not one that keys may come from")
	errTooLarge  = errors.New("the key store's document is too large")
)

// New returns a Fetcher. It returns an error if a duration or the rate is invalid.
func New(cfg Config) (*Fetcher, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Resolve == nil {
		cfg.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	for _, span := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{{"Keep", &cfg.Keep, time.Hour}, {"Stale", &cfg.Stale, 24 * time.Hour}, {"Pause", &cfg.Pause, time.Minute}, {"Timeout", &cfg.Timeout, 10 * time.Second}, {"AskTimeout", &cfg.AskTimeout, 5 * time.Second}} {
		if *span.value < 0 {
			return nil, fmt.Errorf("configuring key fetching: %s is negative", span.name)
		}
		if *span.value == 0 {
			*span.value = span.usual
		}
	}
	if cfg.Rate < 0 {
		return nil, errors.New("configuring key fetching: Rate is negative")
	}
	if cfg.Rate == 0 {
		cfg.Rate = 30
	}
	cfg.Rate = max(cfg.Rate, 3)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Fetcher{
		guard: egress.New(egress.Config{Allow: cfg.Allow, Timeout: cfg.Timeout}), cfg: cfg, began: cfg.Now(),
		documents: documents{}, sources: map[string]*Source{}, open: newLane(4*cfg.Rate, 4*cfg.Rate), putOff: newSketch(),
		saves: make(chan Copy, maxSaves), tokens: map[[sha256.Size]byte]*token{}, questions: make(chan struct{}, maxQuestions),
	}
	f.own = f.Source("")
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.client = &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would connect for us, without the guard
			DialContext:            f.dial,
			TLSClientConfig:        &tls.Config{RootCAs: cfg.Roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    cfg.Timeout,
			ResponseHeaderTimeout:  cfg.Timeout,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
			IdleConnTimeout:        30 * time.Second,
			MaxIdleConnsPerHost:    1,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return f, nil
}

// dial resolves the host once and connects to an address that it has checked, so that a DNS answer
// that changes between check and connection has no effect.
func (f *Fetcher) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	if literal, err := netip.ParseAddr(host); err == nil {
		addresses = []netip.Addr{literal}
	} else if addresses, err = f.cfg.Resolve(ctx, host); err != nil {
		return nil, fmt.Errorf("resolving %s: %w", host, err)
	}
	last := egress.ErrRefused
	for _, addr := range addresses {
		addr = addr.WithZone("").Unmap()
		if !f.guard.Allows(addr) {
			continue
		}
		conn, err := f.guard.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}

// Fetch calls [Source.Fetch] of the source without a name.
func (f *Fetcher) Fetch(want scheme.KeyRequest) ([]byte, error) { return f.own.Fetch(want) }

// Confirm calls [Source.Confirm] of the source without a name.
func (f *Fetcher) Confirm(want scheme.KeyRequest) { f.own.Confirm(want) }

// do sends one request. It rejects a reply that arrives after the deadline, because a server that
// notices that the client has gone may answer 200 on its own.
func (f *Fetcher) do(req *http.Request) (*http.Response, error) {
	reply, err := f.client.Do(req)
	if asked, ok := errors.AsType[*url.Error](err); ok {
		err = asked.Err // without the address, whose query may contain a credential
	}
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		_ = reply.Body.Close()
		return nil, err
	}
	return reply, nil
}

func (f *Fetcher) get(want *scheme.KeyRequest) (_ []byte, err error) {
	// No request's context applies, because all waiting requests share the document.
	ctx, cancel := context.WithTimeout(f.ctx, f.cfg.Timeout)
	defer cancel()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if len(want.Body) > 0 {
		method, body = http.MethodPost, bytes.NewReader(want.Body)
	}
	req, err := http.NewRequestWithContext(ctx, method, want.URL, body)
	if err != nil {
		return nil, errForbidden
	}
	req.Header.Set("User-Agent", "oncegate")
	if len(want.Body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := f.do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching keys: %w", err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	limit := int64(maxDocument)
	if want.Claimed {
		limit = maxClaimed
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("fetching keys: %w", err)
	case int64(len(text)) > limit:
		return nil, errTooLarge
	case answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusGone:
		return nil, scheme.ErrNoKey
	case answer.StatusCode != http.StatusOK:
		return nil, &scheme.StoreError{Status: answer.StatusCode, Body: text}
	case len(text) == 0:
		return nil, errors.New("the key store answered nothing")
	case want.Check != nil:
		if err := want.Check(text); err != nil {
			return nil, err
		}
	}
	return text, nil
}
