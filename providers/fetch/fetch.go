// Package fetch gets the keys that some providers publish: over https alone,
// from the hosts a provider names alone, to public addresses alone, bounded in
// size, time and rate, and kept. It is the one place of the providers that opens
// a socket; verification asks for it through [scheme.Fetcher]. By the same way,
// and as guarded, it asks a provider about a request ([scheme.Asker]).
//
// # What a forgery can cost
//
// Some requests name the document that is to verify them, so anybody can name another
// one, a hundred times a second. Documents are therefore of three kinds. Those that the
// configuration names, and those that have verified something, are asked for without
// reserve: once an hour, and at most once a minute where a key is missing. They are never
// pushed out by what has verified nothing, and a [Store] brings them back after a
// restart. A document that the request names and that has verified nothing has a place
// of its own and a budget for each source, with a bound for all sources together.
//
// The document of a sender's new key is of the third kind as well. So the budget has
// three lanes: for whatever comes, for what is asked for again after it was put off, and
// for clients near those that have sent something authentic. In each of them one network
// of clients gets only a share. Forgeries that name a new document each time use up the
// first lane alone: a new key is then known at the second delivery that names it. A
// forger who repeats each address competes in the second lane, from as many networks as
// they have, and then the third lane remains.
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

	// Store brings back what has verified something after a restart. nil is none.
	Store Store

	// Keep is how long a copy is given without asking again. An older copy of what has
	// verified something, or is configured, is still given while it is asked for
	// again. It defaults to 1 h.
	Keep time.Duration

	// Stale is from which age on a copy is not given before it was tried to get a newer
	// one. It defaults to 24 h.
	Stale time.Duration

	// Pause is the shortest time between two attempts for one document, and so
	// between two renewals for an unknown key. It defaults to 1 min.
	Pause time.Duration

	// Timeout is for one attempt. It defaults to 10 s.
	Timeout time.Duration

	// AskTimeout is for a question to a provider, all that belongs to it included.
	// The sender waits meanwhile. It defaults to 5 s.
	AskTimeout time.Duration

	// Rate is how many documents that requests name, and that have verified nothing, a
	// source may ask for in a minute, a third of it in each lane. It defaults to 30, and
	// is at least 3. All sources together may ask for four times as many in the first lane.
	Rate int

	// Logger may be nil.
	Logger *slog.Logger
}

const (
	// maxDocument is the largest document that the configuration names, in bytes: a set
	// of keys may hold a chain of certificates for each.
	maxDocument = 1 << 20

	// maxClaimed is the largest document that a request names, in bytes.
	maxClaimed = 64 << 10
)

// Fetcher gets documents for all sources. Each of them asks through its own [Source].
// It is safe for concurrent use.
type Fetcher struct {
	cfg    Config
	client *http.Client
	guard  *egress.Guard
	began  time.Time
	own    *Source // for whoever asks without a source

	// Attempts end with the context, which Stop ends.
	ctx    context.Context //nolint:containedctx // an attempt is for all that wait, and belongs to none of them
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu        sync.Mutex
	documents documents
	sources   map[string]*Source
	open      lane   // the first lane of all sources
	putOff    sketch // what was asked for and put off
	running   int    // attempts for what has verified nothing
	stats     Stats
	tokens    map[[sha256.Size]byte]*token

	saves     chan Copy
	questions chan struct{} // those under way
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

// Fetch is that of a source without a name, see [Source.Fetch].
func (f *Fetcher) Fetch(want scheme.KeyRequest) ([]byte, error) { return f.own.Fetch(want) }

// Confirm is that of a source without a name, see [Source.Confirm].
func (f *Fetcher) Confirm(want scheme.KeyRequest) { f.own.Confirm(want) }

// do makes one request. A reply that arrives once its time is over is none: a server that
// notices that its caller has gone may answer 200 by itself.
func (f *Fetcher) do(req *http.Request) (*http.Response, error) {
	reply, err := f.client.Do(req)
	if asked, ok := errors.AsType[*url.Error](err); ok {
		err = asked.Err // without the address: its query may hold a credential
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
	// No request waits with its own context: what is fetched is for all of them.
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
