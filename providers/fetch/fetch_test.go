package fetch_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/providers/fetch"
	"github.com/oncegate/oncegate/providers/scheme"
)

// store is a key store of the test, reached by a name that the test resolves.
type store struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	asked  atomic.Int64
	host   string
	now    atomic.Int64 // in Unix seconds
}

func open(t *testing.T) (*store, fetch.Config) {
	t.Helper()
	s := &store{}
	s.now.Store(1_800_000_000)
	s.says(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("keys")) })
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		(*s.answer.Load())(w, r)
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.host = "example.com:" + port // the name of the test server's certificate
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, fetch.Config{
		Now: func() time.Time { return time.Unix(s.now.Load(), 0) },
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Roots: roots,
	}
}

func (s *store) says(f http.HandlerFunc) { s.answer.Store(&f) }

func (s *store) want(path string) scheme.KeyRequest {
	return scheme.KeyRequest{URL: "https://" + s.host + path, Hosts: []string{s.host}}
}

func fetcher(t *testing.T, cfg fetch.Config) *fetch.Fetcher {
	t.Helper()
	f, err := fetch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestKeepsAndRenews(t *testing.T) {
	t.Parallel()
	s, cfg := open(t)
	f := fetcher(t, cfg)
	get := func(renew bool) string {
		t.Helper()
		want := s.want("/keys")
		want.Renew = renew
		text, err := f.Fetch(want)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	asked := func(want int64) {
		t.Helper()
		if n := s.asked.Load(); n != want {
			t.Errorf("asked %d times, want %d", n, want)
		}
	}
	early := func(after time.Duration) {
		t.Helper()
		want := s.want("/keys")
		want.Renew = true
		text, err := f.Fetch(want)
		if deferral, ok := errors.AsType[*scheme.Deferral](err); text != nil || !ok || deferral.After != after {
			t.Errorf("%q %v, want to come again after %s", text, err, after)
		}
	}
	for range 3 {
		get(false)
	}
	s.now.Add(10)
	early(50 * time.Second) // within a minute of the first
	asked(1)
	s.says(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("new")) })
	s.now.Add(51)
	if got := get(false); got != "keys" {
		t.Errorf("%s, before the copy is old", got)
	}
	if got := get(true); got != "new" {
		t.Errorf("%s after a renewal", got)
	}
	for range 5 {
		early(time.Minute) // an unknown key renews once a minute
	}
	asked(2)
	s.says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	s.now.Add(3601)
	if got := get(false); got != "new" {
		t.Errorf("%s: the last good copy is kept", got)
	}
	attemptsEnd(t, f, 3) // beside the delivery
	asked(3)
	s.now.Add(24 * 3600)
	if got := get(false); got != "new" {
		t.Errorf("%s: the last good copy is kept, however old", got)
	}
	asked(4) // before the delivery
}

// attemptsEnd waits until so many attempts for trusted documents have ended.
func attemptsEnd(t *testing.T, f *fetch.Fetcher, n uint64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		ends := f.Stats().Trusted
		if ends.Got+ends.Missing+ends.Failed >= n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, want %d", ends, n)
		}
	}
}

func TestOneFlight(t *testing.T) {
	t.Parallel()
	s, cfg := open(t)
	release := make(chan struct{})
	s.says(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = w.Write([]byte("keys"))
	})
	f := fetcher(t, cfg)
	var all sync.WaitGroup
	var failed atomic.Int64
	for range 50 {
		all.Go(func() {
			if text, err := f.Fetch(s.want("/keys")); err != nil || string(text) != "keys" {
				failed.Add(1)
			}
		})
	}
	close(release)
	all.Wait()
	if failed.Load() > 0 || s.asked.Load() != 1 {
		t.Errorf("%d failed, asked %d times", failed.Load(), s.asked.Load())
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	s, cfg := open(t)
	f := fetcher(t, cfg)
	for name, want := range map[string]scheme.KeyRequest{
		"http":           {URL: "http://" + s.host + "/", Hosts: []string{s.host}},
		"another host":   {URL: "https://evil.example/", Hosts: []string{s.host}},
		"no host":        {URL: "https://" + s.host + "/"},
		"a user":         {URL: "https://a@" + s.host + "/", Hosts: []string{s.host}},
		"another port":   {URL: "https://example.com:1/", Hosts: []string{s.host}},
		"a suffix":       {URL: "https://" + s.host + ".evil.example/", Hosts: []string{s.host}},
		"file":           {URL: "file:///etc/passwd", Hosts: []string{""}},
		"no address":     {URL: "://", Hosts: []string{""}},
		"below the wild": {URL: "https://paypal.com.evil/", Hosts: []string{"*.paypal.com"}},
		"the wild alone": {URL: "https://.paypal.com/", Hosts: []string{"*.paypal.com"}},
	} {
		if _, err := f.Fetch(want); err == nil {
			t.Errorf("%s is fetched", name)
		}
	}
	if s.asked.Load() != 0 {
		t.Error("the store was asked")
	}
}

// TestGuard checks that the address is judged when it is dialled, whatever name it was resolved
// from.
func TestGuard(t *testing.T) {
	t.Parallel()
	s, cfg := open(t)
	for _, addr := range []string{
		"127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "::1", "::ffff:127.0.0.1", "fd00:ec2::254", "fe80::1", "0.0.0.0",
		"64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:0:0:0:0:80ff:fffe", "198.18.0.1", "100.100.100.200", "224.0.0.1",
	} {
		cfg.Allow = nil
		cfg.Resolve = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(addr)}, nil
		}
		if _, err := fetcher(t, cfg).Fetch(s.want("/")); !errors.Is(err, egress.ErrRefused) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	cfg.Allow = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	cfg.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}
	if _, err := fetcher(t, cfg).Fetch(s.want("/")); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("metadata is reached where all is allowed: %v", err)
	}
	if s.asked.Load() != 0 {
		t.Error("the store was asked")
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		none   bool
		status int
	}{
		"missing":  {answer: http.NotFound, none: true},
		"gone":     {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, none: true},
		"redirect": {answer: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, status: http.StatusFound},
		"fault":    {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, status: http.StatusBadGateway},
		"empty":    {answer: func(http.ResponseWriter, *http.Request) {}},
		"large":    {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("a", 1<<20+1))) }},
	} {
		s, cfg := open(t)
		s.says(c.answer)
		f := fetcher(t, cfg)
		for range 3 {
			text, err := f.Fetch(s.want("/keys"))
			if err == nil || text != nil {
				t.Errorf("%s: fetched", name)
				continue
			}
			if errors.Is(err, scheme.ErrNoKey) != c.none {
				t.Errorf("%s: %v", name, err)
			}
			if answered, ok := errors.AsType[*scheme.StoreError](err); c.status != 0 && (!ok || answered.Status != c.status) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s.asked.Load() != 1 {
			t.Errorf("%s: asked %d times within a minute", name, s.asked.Load())
		}
	}
}

func TestPosts(t *testing.T) {
	t.Parallel()
	s, cfg := open(t)
	s.says(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte("key"))
	})
	want := s.want("/get")
	want.Body = []byte(`{"key_id":"1"}`)
	if _, err := fetcher(t, cfg).Fetch(want); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []fetch.Config{{Keep: -1}, {Pause: -1}, {Timeout: -1}, {Rate: -1}} {
		if _, err := fetch.New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}
