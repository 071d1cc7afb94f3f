package receiver_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// attacked is a server whose senders the test makes slow. Time stands still for it unless
// the test moves it on, so that only what the test does makes a body slow.
type attacked struct {
	address  string
	registry *prometheus.Registry
	gate     *fakeGate
	passed   atomic.Int64
}

// attack serves the sources "shop" and "other", with limits that adjust makes. Nothing is
// cut off for being slow by itself.
func attack(t *testing.T, adjust func(*receiver.Config)) *attacked {
	t.Helper()
	a := &attacked{registry: prometheus.NewRegistry(), gate: &fakeGate{}}
	metrics, err := receiver.NewMetrics(a.registry)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(a.gate, newProvider())
	other := *cfg.Sources["shop"]
	other.Inbox = &inbox.Source{ID: 8, Name: "other", Class: "default"}
	cfg.Sources["other"] = &other
	began := time.Now()
	cfg.SystemNow = func() time.Time { return began.Add(time.Duration(a.passed.Load())) }
	cfg.Metrics, cfg.BodyTimeout, cfg.LeastBodyRate = metrics, 24*time.Hour, -1
	cfg.SourceReserve, cfg.SmallBodyReserve = -1, -1
	cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	adjust(&cfg)
	a.address = serve(t, cfg, receiver.ServerConfig{WriteTimeout: time.Hour})
	return a
}

// held is the memory that bodies hold.
func (a *attacked) held(t *testing.T) int64 {
	t.Helper()
	return int64(gauge(t, a.registry, "oncegate_body_in_flight_bytes"))
}

// stalled is a sender that has sent a part of its body and could send the rest.
type stalled struct {
	t      *testing.T
	rest   string
	answer chan string
	write  func(string)
}

// stall sends the first bytes of a body of size bytes to a source, as the peer, and waits
// until they are there.
func (a *attacked) stall(t *testing.T, source, peer string, size, sent int, lines ...string) *stalled {
	t.Helper()
	body := `{"id":"evt_1","text":"` + strings.Repeat("x", size-24) + `"}`
	if len(lines) == 0 {
		lines = []string{fmt.Sprint("Content-Length: ", size)}
	}
	request := strings.Replace(head(body, append(lines, "X-Forwarded-For: "+peer)...), "/in/shop", "/in/"+source, 1)
	if strings.HasPrefix(lines[0], "Transfer-Encoding") {
		request, body = request+fmt.Sprintf("%x\r\n", size), body+"\r\n0\r\n\r\n"
	}
	before := a.held(t)
	conn := dial(t, a.address)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	s := &stalled{t: t, rest: body[sent:], answer: make(chan string, 1), write: func(text string) { _, _ = io.WriteString(conn, text) }}
	s.write(request + body[:sent])
	go func() {
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			s.answer <- err.Error()
			return
		}
		_ = answer.Body.Close()
		s.answer <- answer.Status
	}()
	inboxtest.Until(t, "the bytes to arrive", func() bool { return a.held(t) == before+charged(int64(sent)) || len(s.answer) > 0 })
	return s
}

// charged is the size of the buffer that holds so many bytes of a body that is still arriving.
func charged(sent int64) int64 {
	size := int64(4 << 10)
	for size < sent {
		size *= 2
	}
	return size
}

// finish sends the rest and gives the answer.
func (s *stalled) finish() string {
	s.t.Helper()
	s.write(s.rest)
	return s.status()
}

func (s *stalled) status() string {
	s.t.Helper()
	select {
	case status := <-s.answer:
		return status
	case <-time.After(time.Minute):
		s.t.Fatal("no answer")
		return ""
	}
}

// waiting reports that there is no answer yet.
func (s *stalled) waiting() bool { return len(s.answer) == 0 }

// deliver sends a whole body of the size and gives the answer.
func (a *attacked) deliver(t *testing.T, source, peer string, size int) string {
	t.Helper()
	body := `{"id":"evt_1","text":"` + strings.Repeat("x", size-24) + `"}`
	raw := strings.Replace(head(body, fmt.Sprint("Content-Length: ", size), "X-Forwarded-For: "+peer), "/in/shop", "/in/"+source, 1) + body
	answers, _ := exchange(t, a.address, raw)
	if len(answers) != 1 {
		t.Fatalf("%d answers", len(answers))
	}
	return answers[0].Status
}

const (
	accepted = "200 OK"
	shed     = "503 Service Unavailable"
)
