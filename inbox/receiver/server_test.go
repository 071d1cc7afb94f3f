package receiver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// listen takes a port below the range the system hands out, so that no other
// program's outgoing connection can hold it.
func listen(tb testing.TB) net.Listener {
	tb.Helper()
	var config net.ListenConfig
	for range 100 {
		listener, err := config.Listen(tb.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000)))
		if err == nil {
			return listener
		}
	}
	tb.Fatal("no free port")
	return nil
}

// serve starts the real server and returns its address. It is drained at the
// end of the test.
func serve(tb testing.TB, cfg receiver.Config, limits receiver.ServerConfig) string {
	tb.Helper()
	limits.Handler, limits.Logger = newReceiver(tb, cfg), slog.New(slog.DiscardHandler)
	server, err := receiver.NewServer(limits)
	if err != nil {
		tb.Fatal(err)
	}
	listener := listen(tb)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			tb.Errorf("draining: %v", err)
			_ = server.Close()
		}
		<-done
	})
	return listener.Addr().String()
}

func dial(tb testing.TB, address string) *net.TCPConn {
	tb.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(tb.Context(), "tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn.(*net.TCPConn)
}

// exchange sends raw bytes, closes the sending side, and reads every answer.
func exchange(tb testing.TB, address, raw string) (answers []*http.Response, bodies []string) {
	tb.Helper()
	conn := dial(tb, address)
	_, _ = io.WriteString(conn, raw)
	_ = conn.CloseWrite()
	reader := bufio.NewReader(conn)
	for {
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			return answers, bodies
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		answers, bodies = append(answers, answer), append(bodies, string(body))
	}
}

func head(body string, lines ...string) string {
	return "POST /in/shop HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Signature: " + sign(body) + "\r\n" +
		strings.Join(lines, "\r\n") + "\r\n\r\n"
}

func whole(body string) string {
	return head(body, fmt.Sprint("Content-Length: ", len(body))) + body
}

func chunked(body string, size int) string {
	var b strings.Builder
	for body != "" {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// Wherever a sender is cut off, nothing is recorded and nothing acknowledged.
func TestACutDeliveryIsNeverAcknowledged(t *testing.T) {
	t.Parallel()
	body := `{"id":"evt_1","text":"` + strings.Repeat("long ", 8000) + `"}`
	chunks := head(body, "Transfer-Encoding: chunked") + chunked(body, 1000)
	for name, raw := range map[string]string{"declared": whole(body), "chunked": chunks} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &fakeGate{}
			address := serve(t, config(g, newProvider()), receiver.ServerConfig{})
			headers := strings.Index(raw, "\r\n\r\n")
			for _, at := range []int{
				0, 1, 4, 15, 24, 30, headers - 1, headers, headers + 2, headers + 3, // request line and headers
				headers + 4, headers + 5, headers + 6, headers + 500, headers + 1004, headers + 1008, headers + 16<<10, // body, chunk borders, buffer borders
				headers + 16<<10 + 5, len(raw) - 30, len(raw) - 7, len(raw) - 5, len(raw) - 3, len(raw) - 2, len(raw) - 1,
			} {
				answers, _ := exchange(t, address, raw[:at])
				for _, answer := range answers {
					if answer.StatusCode != http.StatusRequestTimeout && answer.StatusCode != http.StatusBadRequest {
						t.Errorf("cut at %d of %d: %d", at, len(raw), answer.StatusCode)
					}
					if !answer.Close {
						t.Errorf("cut at %d: the connection stays open", at)
					}
				}
			}
			if n := len(g.admissions()); n != 0 {
				t.Fatalf("%d cut deliveries reached the gate", n)
			}
			// The last byte makes the difference.
			if answers, _ := exchange(t, address, raw); len(answers) != 1 || answers[0].StatusCode != http.StatusOK {
				t.Errorf("whole: %v", answers)
			}
			if seen := g.admissions(); len(seen) != 1 || string(seen[0].Body) != body {
				t.Error("the whole body did not reach the gate")
			}
		})
	}
}

func TestRawRequests(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", maxBody+1)
	signatures := make([]string, 101)
	for i := range signatures {
		signatures[i] = "X-Signature: " + sign(event)
	}
	signatures[100] = fmt.Sprint("Content-Length: ", len(event))
	for name, test := range map[string]struct {
		raw    string
		status []int
		events int
	}{
		"chunked without a length":      {head(event, "Transfer-Encoding: chunked") + chunked(event, 7), []int{200}, 1},
		"chunked, a byte at a time":     {head(event, "Transfer-Encoding: chunked") + chunked(event, 1), []int{200}, 1},
		"two on one connection":         {whole(event) + whole(event), []int{200, 200}, 2},
		"HTTP/1.0":                      {strings.Replace(whole(event), "HTTP/1.1", "HTTP/1.0", 1), []int{200}, 1},
		"no body at all":                {head("", "Content-Length: 0"), []int{200}, 1}, // signed, so a dead letter
		"oversize, declared":            {head(big, fmt.Sprint("Content-Length: ", len(big))), []int{413}, 0},
		"oversize, declared absurdly":   {head(big, "Content-Length: 9000000000000000000"), []int{413}, 0},
		"oversize, undeclared":          {head(big, "Transfer-Encoding: chunked") + chunked(big, 4096), []int{413}, 0},
		"chunk of an absurd size":       {head(event, "Transfer-Encoding: chunked") + "fffffffffffffffff\r\n", []int{408}, 0},
		"chunk that is no number":       {head(event, "Transfer-Encoding: chunked") + "zz\r\n", []int{408}, 0},
		"refused, then smuggled":        {head(event+"x", "Content-Length: 99999999") + whole(event), []int{413}, 0},
		"wrong type, then smuggled":     {strings.Replace(whole(event), "application/json", "text/plain", 1) + whole(event), []int{415}, 0},
		"length and chunked":            {head(event, "Content-Length: 5", "Transfer-Encoding: chunked") + chunked(event, 9), []int{200}, 1}, // RFC 9112 6.3: chunked wins, and the connection ends
		"two lengths that differ":       {head(event, "Content-Length: 5", "Content-Length: 25") + event, []int{400}, 0},
		"two lengths that agree":        {head(event, "Content-Length: 25", "Content-Length: 25") + event, []int{200}, 1},
		"negative length":               {head(event, "Content-Length: -1") + event, []int{400}, 0},
		"length with a sign":            {head(event, "Content-Length: +25") + event, []int{400}, 0},
		"unknown transfer encoding":     {head(event, "Transfer-Encoding: gzip, chunked") + event, []int{501}, 0},
		"space before a colon":          {head(event, "Content-Length : 25") + event, []int{400}, 0},
		"header without a colon":        {head(event, "Content-Length") + event, []int{400}, 0},
		"two hosts":                     {head(event, "Host: y", "Content-Length: 25") + event, []int{400}, 0},
		"100 signatures more":           {head(event, signatures...) + event, []int{401}, 0},
		"headers beyond the limit":      {head(event, "X-Large: "+strings.Repeat("x", 32<<10), "Content-Length: 25") + event, []int{431}, 0},
		"not HTTP":                      {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", []int{400}, 0},
		"HTTP/2 without an upgrade":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{404}, 0},
		"asterisk":                      {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", []int{200}, 0}, // net/http's own answer
		"encoded path out of the route": {"POST /in/../in/%2e%2e/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", []int{404}, 0},
		"gzip":                          {head(event, "Content-Encoding: gzip", "Content-Length: 25") + event, []int{415}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &fakeGate{}
			address := serve(t, config(g, newProvider()), receiver.ServerConfig{})
			answers, bodies := exchange(t, address, test.raw)
			var got []int
			for i, answer := range answers {
				got = append(got, answer.StatusCode)
				if id := answer.Header.Get("X-Request-Id"); id != "" && answer.StatusCode != http.StatusOK && bodies[i] != "" {
					t.Errorf("the refusal has a body: %q", bodies[i])
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(test.status) {
				t.Errorf("answers %v, want %v", got, test.status)
			}
			if n := len(g.admissions()); n != test.events {
				t.Errorf("%d deliveries reached the gate, want %d", n, test.events)
			}
		})
	}
}

// A sender that is refused before its body is read is not waited for.
func TestNobodyWaitsForABodyThatIsNotRead(t *testing.T) {
	t.Parallel()
	cfg := config(&fakeGate{}, newProvider())
	cfg.BodyTimeout = time.Hour
	address := serve(t, cfg, receiver.ServerConfig{})
	for raw, want := range map[string]string{
		"POST /elsewhere HTTP/1.1": "404",
		"POST /in/nobody HTTP/1.1": "404",
		"DELETE /in/shop HTTP/1.1": "405",
		"POST /in/shop/ HTTP/1.1":  "404",
		"POST /in/shop?a HTTP/1.1": "415",
		"GET /in/%73hop2 HTTP/1.1": "404",
	} {
		conn := dial(t, address)
		_, _ = io.WriteString(conn, raw+"\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nx")
		answer, err := io.ReadAll(conn) // until the server closes
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) || !strings.HasSuffix(string(answer), "\r\n\r\n") {
			t.Errorf("%s: %q %v", raw, answer, err)
		}
	}
}

// Slow senders are cut off at their deadline, and nobody else feels them.
func TestSlowSenders(t *testing.T) {
	t.Parallel()
	g := &fakeGate{}
	cfg := config(g, newProvider())
	cfg.BodyTimeout = 300 * time.Millisecond
	cfg.BodyBytes = 4 << 20 // 200 slow senders announce 12 MiB together
	registry := prometheus.NewRegistry()
	metrics, err := receiver.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Metrics = metrics
	// Headers get longer than bodies, so that a machine that is slow to look at a connection cuts off none whose headers have
	// come.
	address := serve(t, cfg, receiver.ServerConfig{ReadHeaderTimeout: 3 * time.Second})

	large := strings.Repeat("x", maxBody)
	type end struct {
		answer string
		took   time.Duration
	}
	ends := make(chan end, 200)
	for n := range 200 {
		conn := dial(t, address)
		started := time.Now()
		raw := head(large, fmt.Sprint("Content-Length: ", maxBody)) + "{"
		if n%2 == 1 {
			raw = raw[:40] // within the headers
		}
		if _, err := io.WriteString(conn, raw); err != nil {
			t.Fatal(err)
		}
		go func() {
			answer, _ := io.ReadAll(conn)
			ends <- end{string(answer), time.Since(started)}
		}()
	}
	for range 50 {
		if answers, _ := exchange(t, address, whole(event)); len(answers) != 1 || answers[0].StatusCode != http.StatusOK {
			t.Fatalf("a good delivery beside slow ones: %v", answers)
		}
	}
	bodies := 0
	for range 200 {
		e := <-ends
		if e.took > 10*time.Second {
			t.Errorf("cut off after %v", e.took)
		}
		if strings.HasPrefix(e.answer, "HTTP/1.1 408 ") && strings.Contains(e.answer, "Content-Length: 0\r\n") {
			bodies++
		} else if e.answer != "" && !strings.HasPrefix(e.answer, "HTTP/1.1 400 ") {
			t.Errorf("answer %q", e.answer)
		}
	}
	if bodies != 100 {
		t.Errorf("%d of 100 slow bodies were answered 408", bodies)
	}
	if n := counted(t, registry, "oncegate_refusals_total", "slow"); n != 100 {
		t.Errorf("%v slow bodies counted", n)
	}
	if n := len(g.admissions()); n != 50 {
		t.Errorf("%d reached the gate, want the 50 good ones", n)
	}
}

// The body's deadline must not end the wait for the gate: a connection whose
// deadline passes cancels the request.
func TestTheBodyDeadlineEndsWithTheBody(t *testing.T) {
	t.Parallel()
	cancelled := make(chan bool, 1)
	timeout := 50 * time.Millisecond
	g := &fakeGate{answer: func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*timeout)
		defer cancel()
		select {
		case <-ctx.Done():
			cancelled <- true
		case <-late.Done():
			cancelled <- false
		}
		return receipt(a, inbox.Recorded), nil
	}}
	cfg := config(g, newProvider())
	cfg.BodyTimeout = timeout
	address := serve(t, cfg, receiver.ServerConfig{})
	conn := dial(t, address)
	if _, err := io.WriteString(conn, whole(event)); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK || <-cancelled {
		t.Errorf("status %d, or the request was cancelled by its body's deadline", answer.StatusCode)
	}
}
