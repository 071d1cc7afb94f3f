// Package fetch gets the keys that some providers publish: over https alone,
// from the hosts a provider names alone, to public addresses alone, bounded in
// size, time and rate, and kept. It is the one place of the providers that opens
// a socket; verification asks for it through [scheme.Fetcher]. By the same way,
// and as guarded, it asks a provider about a request ([scheme.Asker]).
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

	"github.com/oncegate/oncegate/egress"
	"github.com/oncegate/oncegate/providers/scheme"
)

// Config configures a Fetcher. Every field has a default.
type Config struct {
	// Now defaults to time.Now.
	Now func() time.Time

	// Resolve finds the addresses of a host. It defaults to the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	// Allow are ranges that may be reached although they are not public, for a key
	// store of one's own. Link-local addresses and metadata services never are.
	Allow []netip.Prefix

	// Roots stand for the system's certificates.
	Roots *x509.CertPool

	// Keep is how long a copy is given without asking again. It defaults to 1 h.
	Keep time.Duration

	// Pause is the shortest time between two attempts for one document, and so
	// between two renewals for an unknown key. It defaults to 1 min.
	Pause time.Duration

	// Timeout is for one attempt. It defaults to 10 s.
	Timeout time.Duration

	// AskTimeout is for a question to a provider, all that belongs to it included.
	// The sender waits meanwhile. It defaults to 5 s.
	AskTimeout time.Duration

	// Rate is how many attempts a host gets in a minute, over all its documents. It
	// defaults to 30.
	Rate int

	// Logger may be nil.
	Logger *slog.Logger
}

// maxDocument is the largest document, in bytes.
const maxDocument = 1 << 20

// maxDocuments is how many documents are kept. A sender that invents addresses
// pushes out the oldest ones.
const maxDocuments = 256

// Fetcher implements [scheme.Fetcher] and [scheme.Asker]. It is safe for concurrent use.
type Fetcher struct {
	cfg    Config
	client *http.Client
	guard  *egress.Guard

	mu        sync.Mutex
	documents map[[sha256.Size]byte]*document
	hosts     map[string]*budget
	tokens    map[[sha256.Size]byte]*token

	questions chan struct{} // those under way
}

var (
	_ scheme.Fetcher = (*Fetcher)(nil)
	_ scheme.Asker   = (*Fetcher)(nil)
)

// document is a copy and what is known of fetching it.
type document struct {
	text    []byte    // the last good copy; nil if there is none
	at      time.Time // when it was got
	tried   time.Time // the last attempt
	err     error     // of the last attempt
	running chan struct{}
}

// budget counts the attempts at a host within a minute.
type budget struct {
	since time.Time
	used  int
}

var (
	errForbidden = errors.New("the address is not one that keys may come from")
	errBusy      = errors.New("too many keys were asked of one host")
	errTooLarge  = errors.New("the document is larger than 1 MB")
)

// New returns a Fetcher.
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
	}{{"Keep", &cfg.Keep, time.Hour}, {"Pause", &cfg.Pause, time.Minute}, {"Timeout", &cfg.Timeout, 10 * time.Second}, {"AskTimeout", &cfg.AskTimeout, 5 * time.Second}} {
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
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Fetcher{
		guard: egress.New(egress.Config{Allow: cfg.Allow, Timeout: cfg.Timeout}), cfg: cfg,
		documents: map[[sha256.Size]byte]*document{}, hosts: map[string]*budget{},
		tokens: map[[sha256.Size]byte]*token{}, questions: make(chan struct{}, maxQuestions),
	}
	f.client = &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would dial in our stead, unguarded
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

// dial resolves once and dials what it resolved: a name that means something
// else a moment later leads nowhere.
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

// Fetch gives a document. However many ask for it, one attempt is made; those
// that have waited for it share its end. An attempt that fails leaves the last
// good copy in use.
func (f *Fetcher) Fetch(want scheme.KeyRequest) ([]byte, error) {
	if !scheme.Allowed(want.URL, want.Hosts) {
		return nil, errForbidden
	}
	u, err := url.Parse(want.URL)
	if err != nil {
		return nil, errForbidden
	}
	key := sha256.Sum256(append([]byte(want.URL+"\n"), want.Body...)) // what is posted may be a credential
	f.mu.Lock()
	d := f.document(key)
	if d.running != nil {
		wait := d.running
		f.mu.Unlock()
		<-wait // the attempt has a deadline of its own
		f.mu.Lock()
		text, err := d.text, d.err
		f.mu.Unlock()
		if text != nil {
			return text, nil
		}
		return nil, err
	}
	now := f.cfg.Now()
	fresh := d.text != nil && now.Sub(d.at) < f.cfg.Keep
	tried := !d.tried.IsZero() && now.Sub(d.tried) < f.cfg.Pause
	switch {
	case fresh && (!want.Renew || tried), tried && d.text != nil:
		text := d.text
		f.mu.Unlock()
		return text, nil
	case tried:
		err := d.err
		f.mu.Unlock()
		return nil, err
	case !f.spend(u.Host, now):
		text := d.text
		f.mu.Unlock()
		if text != nil {
			return text, nil
		}
		return nil, errBusy
	}
	d.running, d.tried = make(chan struct{}), now
	f.mu.Unlock()
	return f.attempt(want, d)
}

// attempt fetches and tells those who wait.
func (f *Fetcher) attempt(want scheme.KeyRequest, d *document) ([]byte, error) {
	text, err := f.get(want)
	f.mu.Lock()
	defer f.mu.Unlock()
	d.err = err
	switch {
	case err == nil:
		d.text, d.at = text, f.cfg.Now()
	case errors.Is(err, scheme.ErrNoKey):
		d.text = nil // the store speaks, and says that there is none any more
	}
	close(d.running)
	d.running = nil
	if err != nil && d.text != nil {
		f.cfg.Logger.Warn("keys not fetched, the last copy is used", slog.Any("error", err))
		return d.text, nil
	}
	return d.text, err
}

// document finds or makes an entry, making room if there is none.
func (f *Fetcher) document(key [sha256.Size]byte) *document {
	if d := f.documents[key]; d != nil {
		return d
	}
	if len(f.documents) >= maxDocuments {
		var oldest [sha256.Size]byte
		var found *document
		for k, d := range f.documents {
			if d.running == nil && (found == nil || d.tried.Before(found.tried)) {
				oldest, found = k, d
			}
		}
		if found != nil {
			delete(f.documents, oldest)
		}
	}
	d := &document{}
	f.documents[key] = d
	return d
}

// spend takes one attempt of a host's budget.
func (f *Fetcher) spend(host string, now time.Time) bool {
	b := f.hosts[host]
	if b == nil {
		if len(f.hosts) >= maxDocuments {
			clear(f.hosts)
		}
		b = &budget{since: now}
		f.hosts[host] = b
	}
	if now.Sub(b.since) >= time.Minute {
		*b = budget{since: now}
	}
	b.used++
	return b.used <= f.cfg.Rate
}

// do makes one request. A reply that arrives once its time is over is none: a server that
// notices that its caller has gone may answer 200 by itself.
func (f *Fetcher) do(req *http.Request) (*http.Response, error) {
	reply, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		_ = reply.Body.Close()
		return nil, err
	}
	return reply, nil
}

func (f *Fetcher) get(want scheme.KeyRequest) (_ []byte, err error) {
	// No request waits with its own context: what is fetched is for all of them.
	ctx, cancel := context.WithTimeout(context.Background(), f.cfg.Timeout)
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
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("fetching keys: %w", err)
	case len(text) > maxDocument:
		return nil, errTooLarge
	case answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusGone:
		return nil, scheme.ErrNoKey
	case answer.StatusCode != http.StatusOK:
		return nil, &scheme.StoreError{Status: answer.StatusCode, Body: text}
	case len(text) == 0:
		return nil, errors.New("the key store answered nothing")
	}
	return text, nil
}
