package receiver_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/receiver"
)

// multiplexed is a server of HTTP/2 and a client that sends all of its requests over one connection, as proxies do.
type multiplexed struct {
	*httptest.Server
	client      *http.Client
	connections atomic.Int64 // how many the client has opened
}

func newMultiplexed(t *testing.T, cfg receiver.Config) *multiplexed {
	t.Helper()
	m := &multiplexed{Server: httptest.NewUnstartedServer(newReceiver(t, cfg))}
	m.EnableHTTP2 = true
	m.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	m.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			m.connections.Add(1)
		}
	}
	m.StartTLS()
	t.Cleanup(m.Close)
	roots := m.Server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	m.client = &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	t.Cleanup(m.client.CloseIdleConnections)
	return m
}

// post sends a delivery and returns the status, or the error, and the version of HTTP.
func (m *multiplexed) post(t *testing.T, body io.Reader, signature string) (status string, major int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.URL+"/in/shop", body)
	if err != nil {
		t.Error(err)
		return err.Error(), 0
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Signature", signature)
	answer, err := m.client.Do(r)
	if err != nil {
		return err.Error(), 0
	}
	_ = answer.Body.Close()
	return answer.Status, answer.ProtoMajor
}

// A body that is not read to its end costs the others nothing that come over the same connection: it goes on.
func TestAnUnreadBodyLeavesTheConnectionOfHTTP2(t *testing.T) {
	t.Parallel()
	cfg := config(&fakeGate{}, newProvider())
	cfg.BodyTimeout, cfg.BodyGrace = time.Hour, 300*time.Millisecond
	m := newMultiplexed(t, cfg)
	if status, major := m.post(t, strings.NewReader(event), sign(event)); status != accepted || major != 2 {
		t.Fatalf("a delivery: %s by HTTP/%d", status, major)
	}
	for range 3 {
		slow, writer := io.Pipe()
		go func() { _, _ = writer.Write([]byte("x")) }()
		if status, _ := m.post(t, slow, sign("x")); status != "408 Request Timeout" {
			t.Errorf("a slow body: %s", status)
		}
		_ = writer.Close()
		if status, _ := m.post(t, strings.NewReader(event), sign(event)); status != accepted {
			t.Errorf("a delivery after it: %s", status)
		}
	}
	if n := m.connections.Load(); n != 1 {
		t.Errorf("the client needed %d connections, want 1", n)
	}
}
