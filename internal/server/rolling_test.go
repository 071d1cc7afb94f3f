package server_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/server"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog"
)

var restarts = flag.Int("restarts", 4, "how many processes TestARollingRestartRefusesNothing restarts")

const (
	secret = "whsec_rolling"

	// delay is longer than the proxy takes to notice: it asks every probeEvery, which took up to 0.4 s on a busy machine.
	delay      = 5 * time.Second
	probeEvery = 20 * time.Millisecond
)

// backend is a process behind the proxy.
type backend struct {
	proxy *httputil.ReverseProxy
	ready atomic.Bool
	stop  func()
}

// balancer is a proxy that sends each request to a backend that was ready when it last asked. It keeps connections open, as proxies do,
// and does not try a request a second time.
type balancer struct {
	mu       sync.Mutex
	backends []*backend
	next     int
}

func (b *balancer) pick() *backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.backends {
		b.next++
		if chosen := b.backends[b.next%len(b.backends)]; chosen.ready.Load() {
			return chosen
		}
	}
	return nil
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	chosen := b.pick()
	if chosen == nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	chosen.proxy.ServeHTTP(w, r)
}

// set puts a process in a place of the proxy.
func (b *balancer) set(place int, p *backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if place == len(b.backends) {
		b.backends = append(b.backends, p)
		return
	}
	b.backends[place] = p
}

// boot starts a process, waits until the proxy sees that it is ready, and puts it in its place.
func (b *balancer) boot(t *testing.T, place int, settings *config.Config) *backend {
	t.Helper()
	own := *settings
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s, err := server.Open(ctx, app.Config{Settings: &own, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	select {
	case <-s.Started():
	case err := <-ended:
		t.Fatalf("the process ended at its start: %v", err)
	}
	p := &backend{}
	address := s.PublicAddr().String()
	p.proxy = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", address },
		Transport: &http.Transport{MaxIdleConnsPerHost: 32},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	probing, stopProbing := context.WithCancel(ctx)
	probe := func() bool {
		answer := httptest.NewRecorder()
		s.Admin().ServeHTTP(answer, httptest.NewRequestWithContext(probing, http.MethodGet, "/readyz", nil))
		return answer.Code == http.StatusOK
	}
	inboxtest.Until(t, "the process to be ready", probe)
	p.ready.Store(true)
	b.set(place, p)
	var prober sync.WaitGroup
	prober.Go(func() {
		tick := time.NewTicker(probeEvery)
		defer tick.Stop()
		for {
			select {
			case <-probing.Done():
				return
			case <-tick.C:
				if p.ready.Load() && !probe() {
					p.ready.Store(false)
				}
			}
		}
	})
	p.stop = sync.OnceFunc(func() {
		// The context of the probes ends later than that of the process, so that the proxy hears that it leaves.
		if err := s.Close(); err != nil {
			t.Errorf("stopping a process: %v", err)
		}
		stopProbing()
		prober.Wait()
		cancel()
		<-ended //nolint:errcheck // Close has returned, and says what failed
	})
	t.Cleanup(p.stop)
	return p
}

// Two processes behind one proxy are restarted in turn under load. No delivery is refused, none is lost and none is recorded twice.
// Without drain_delay, some meet a closed port.
func TestARollingRestartRefusesNothing(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	settings, err := config.Load(config.Options{
		File: "x.yml", Catalog: new(catalog.Lazy), Environ: []string{"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "SECRET=" + secret},
		Content: fmt.Appendf(nil, `
listen: { public: "127.0.0.1:0", admin: "127.0.0.1:0" }
drain_delay: %s
targets: { nothing: { kind: noop } }
sources: { github: { provider: github, secrets: [env:SECRET], routes: [{ name: nothing, target: nothing }] } }
`, delay),
	})
	if err != nil {
		t.Fatal(err)
	}
	proxied := &balancer{}
	running := []*backend{proxied.boot(t, 0, settings), proxied.boot(t, 1, settings)}
	front := httptest.NewServer(proxied)
	t.Cleanup(front.Close)

	var number, refused atomic.Int64
	loaded, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for loaded.Err() == nil {
				if status := deliver(t, front.URL, number.Add(1)); status != http.StatusAccepted && status != http.StatusOK {
					refused.Add(1)
					t.Logf("answered %d", status)
				}
			}
		})
	}
	for n := range *restarts {
		place := n % len(running)
		running[place].stop()
		running[place] = proxied.boot(t, place, settings)
	}
	cancel()
	senders.Wait()
	if refused.Load() > 0 {
		t.Errorf("%d of %d deliveries were refused", refused.Load(), number.Load())
	}
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	var events, effects int64
	inboxtest.Until(t, "all effects to be done", func() bool {
		err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM inbox_event), (SELECT count(*) FROM effect WHERE state = 'done')`).Scan(&events, &effects)
		if err != nil {
			t.Fatal(err)
		}
		return effects >= number.Load()-refused.Load()
	})
	if events != number.Load() || effects != number.Load() {
		t.Errorf("%d deliveries became %d events and %d effects", number.Load(), events, effects)
	}
	t.Logf("%d restarts, %d deliveries", *restarts, number.Load())
}

// deliver sends one event and returns the status. 0 means that there was no answer.
func deliver(t *testing.T, to string, n int64) int {
	t.Helper()
	return deliverBody(t, to, n, fmt.Appendf(nil, `{"action":"opened","number":%d}`, n))
}

// deliverBody sends an event with a body and returns the status. 0 means that there was no answer.
func deliverBody(t *testing.T, to string, n int64, body []byte) int {
	t.Helper()
	return deliverTo(t, to+"/in/github", n, body)
}

// deliverTo is deliverBody for the address of any source.
func deliverTo(t *testing.T, address string, n int64, body []byte) int {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Github-Event", "issues")
	r.Header.Set("X-Github-Delivery", "delivery-"+strconv.FormatInt(n, 10))
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // so that the connection is kept
	return answer.StatusCode
}
