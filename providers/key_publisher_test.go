package providers_test

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers/fetch"
	"github.com/oncegate/oncegate/providers/scheme"
)

// publisher is a sender's key store that counts its requests. It replaces the hosts of all senders.
type publisher struct {
	*fetch.Fetcher

	cfg   fetch.Config
	at    string // host and port
	asked atomic.Int64
	slow  chan struct{}                     // requests for unpublished documents are answered when it closes
	docs  atomic.Pointer[map[string][]byte] // by address
	now   atomic.Int64                      // in Unix milliseconds
	fault atomic.Pointer[http.HandlerFunc]  // replaces all answers
}

func publish(t *testing.T, adjust ...func(cfg *fetch.Config)) *publisher {
	t.Helper()
	p := &publisher{}
	p.docs.Store(&map[string][]byte{})
	p.now.Store(noon.UnixMilli())
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		if fault := p.fault.Load(); fault != nil {
			(*fault)(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		name := "https:/" + r.URL.Path
		if len(body) > 0 {
			name += "\n" + string(body)
		}
		document, ok := (*p.docs.Load())[name]
		if !ok {
			if p.slow != nil {
				<-p.slow
			}
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(document)
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p.at = "example.com:" + port // the name of the server's certificate
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	p.cfg = fetch.Config{
		Now:   func() time.Time { return time.UnixMilli(p.now.Load()) },
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: roots,
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	}
	for _, f := range adjust {
		f(&p.cfg)
	}
	p.restart(t)
	return p
}

// restart discards the documents in memory.
func (p *publisher) restart(t *testing.T) {
	t.Helper()
	keys, err := fetch.New(p.cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Fetcher = keys
	if err := keys.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keys.Stop(context.WithoutCancel(t.Context())) })
}

// here redirects the request for a document to the publisher. It leaves an address unchanged that
// the scheme must not request.
func (p *publisher) here(want scheme.KeyRequest) scheme.KeyRequest {
	u, err := url.Parse(want.URL)
	if err == nil && scheme.Allowed(want.URL, want.Hosts) {
		want.URL, want.Hosts = "https://"+p.at+"/"+u.Host+u.Path, []string{p.at}
	}
	return want
}

func (p *publisher) Fetch(want scheme.KeyRequest) ([]byte, error) {
	return p.Fetcher.Fetch(p.here(want))
}

func (p *publisher) Confirm(want scheme.KeyRequest) {
	if c, ok := any(p.Fetcher).(interface{ Confirm(want scheme.KeyRequest) }); ok {
		c.Confirm(p.here(want))
	}
}

// says publishes a document in addition to the others.
func (p *publisher) says(address string, document []byte) {
	next := map[string][]byte{address: document}
	for k, v := range *p.docs.Load() {
		if k != address {
			next[k] = v
		}
	}
	p.docs.Store(&next)
}
