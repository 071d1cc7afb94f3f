package effecttest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/jobs/effect"
)

// Secret is one that the sender under test signs with. It must be found in
// nothing that the sender says.
const Secret = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5"

// Kind is a kind under test.
type Kind struct {
	// New makes a sender to the address, that signs with [Secret] if it signs.
	New func(tb testing.TB, url string, idempotent bool) effect.Sender

	// KeyHeader is where the idempotency key goes.
	KeyHeader string
}

// Call is a call as the worker makes it.
func Call(attempt int) *effect.Call {
	return &effect.Call{
		Event: effect.Event{
			ID: "01890a5d-ac96-774b-bcce-b302099a8057", Source: "shop", Provider: "test", EventID: "evt_1", Type: "order.paid",
			ReceivedAt: time.Unix(1_700_000_000, 0), Body: []byte("{ \"n\": 1e400000, \"s\": \"\x00\xff\" }\r\n"),
			ContentType: "application/json; charset=latin1",
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			SequenceKey: "order_7", SequenceNumber: "42",
		},
		Route: "fulfil", Key: "key-1", Attempt: attempt,
	}
}

// Run puts the kind before targets of every sort.
func Run(t *testing.T, kind Kind) {
	t.Parallel()
	t.Run("every status", func(t *testing.T) { t.Parallel(); statuses(t, kind) })
	t.Run("faults", func(t *testing.T) { t.Parallel(); faults(t, kind) })
	t.Run("identical attempts", func(t *testing.T) { t.Parallel(); identical(t, kind) })
	t.Run("no resend on a connection kept alive", func(t *testing.T) { t.Parallel(); resend(t, kind) })
	t.Run("retry after", func(t *testing.T) { t.Parallel(); retryAfter(t, kind) })
	t.Run("no redirect", func(t *testing.T) { t.Parallel(); redirect(t, kind) })
}

// send makes one attempt within a second and checks what holds of all.
func send(t *testing.T, s effect.Sender, ctx context.Context) effect.Result {
	t.Helper()
	call := Call(1)
	rendered, err := s.Render(call)
	if err != nil {
		t.Fatal(err)
	}
	call.Rendered = rendered
	result := s.Send(ctx, call)
	said := fmt.Sprintf("%+v", result)
	for _, canary := range []string{Secret, strings.TrimPrefix(Secret, "whsec_"), "canary-canary"} {
		if strings.Contains(said, canary) {
			t.Errorf("the result holds the secret: %s", said)
		}
	}
	if len(result.Excerpt) > effect.MaxExcerpt || strings.ContainsRune(result.Excerpt, 0) || strings.ToValidUTF8(result.Excerpt, "") != result.Excerpt {
		t.Errorf("the excerpt cannot be stored: %d bytes, %q", len(result.Excerpt), result.Excerpt)
	}
	return result
}

// wanted is the table of what a status means, written apart from the kind's own.
func wanted(status int) effect.Outcome {
	switch status {
	case 408, 409, 425, 429, 503:
		return effect.Retry
	}
	switch status / 100 {
	case 2:
		return effect.Done
	case 3, 4:
		return effect.Dead
	}
	return effect.Unknown
}

func statuses(t *testing.T, kind Kind) {
	for status := 200; status <= 599; status++ {
		target := NewTarget(t, func(conn net.Conn, _ Request) {
			Reply(conn, fmt.Sprintf("%d Whatever", status), http.Header{"Connection": {"close"}}, bodyOf(status, "said "+Secret+"\x00\xff"))
		})
		got := send(t, kind.New(t, target.URL, true), t.Context())
		if got.Outcome != wanted(status) {
			t.Errorf("status %d: %s, want %s", status, got.Outcome, wanted(status))
		}
		if got.Code != fmt.Sprint(status) {
			t.Errorf("status %d: code %q", status, got.Code)
		}
		if n := len(target.Requests()); n != 1 {
			t.Errorf("status %d: %d requests, want 1", status, n)
		}
	}
}

func bodyOf(status int, body string) string {
	if status == http.StatusNoContent || status == http.StatusNotModified {
		return ""
	}
	return body
}

func faults(t *testing.T, kind Kind) {
	for name, c := range map[string]struct {
		script Script
		want   effect.Outcome
	}{
		"closes without a reply": {func(net.Conn, Request) {}, effect.Unknown},
		"half a status line":     {func(conn net.Conn, _ Request) { _, _ = io.WriteString(conn, "HTTP/1.1 20") }, effect.Unknown},
		"not HTTP":               {func(conn net.Conn, _ Request) { _, _ = io.WriteString(conn, "SSH-2.0-x\r\n\r\n") }, effect.Unknown},
		"half a header":          {func(conn net.Conn, _ Request) { _, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-A") }, effect.Unknown},
		"half a body after 200": {func(conn net.Conn, _ Request) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal")
		}, effect.Done},
		"resets":                 {func(conn net.Conn, _ Request) { _ = conn.(*net.TCPConn).SetLinger(0) }, effect.Unknown},
		"never replies":          {func(conn net.Conn, _ Request) { _, _ = io.Copy(io.Discard, conn) }, effect.Unknown},
		"endless header":         {endless("HTTP/1.1 200 OK\r\nX: "), effect.Unknown},
		"endless body after 200": {endless("HTTP/1.1 200 OK\r\n\r\n"), effect.Done},
		"endless body after 500": {endless("HTTP/1.1 500 No\r\n\r\n"), effect.Unknown},
		"a body that stalls after it": {func(conn net.Conn, _ Request) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
		}, effect.Done},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := NewTarget(t, closing(c.script))
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if got := send(t, kind.New(t, target.URL, false), ctx); got.Outcome != c.want {
				t.Errorf("%+v, want %s", got, c.want)
			}
			if n := len(target.Requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		var config net.ListenConfig
		listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		if got := send(t, kind.New(t, "http://"+listener.Addr().String(), false), t.Context()); got.Outcome != effect.Retry {
			t.Errorf("%+v, want retry", got)
		}
	})
	for name, url := range map[string]string{
		"metadata service": "http://169.254.169.254/latest", "mapped": "http://[::ffff:169.254.169.254]/", "nat64": "http://[64:ff9b::a9fe:a9fe]/",
		"6to4": "http://[2002:a9fe:a9fe::]/", "link-local": "http://[fe80::1]/", "multicast": "http://224.0.0.1/", "unspecified": "http://0.0.0.0/", "broadcast": "http://255.255.255.255/",
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			t.Parallel()
			if got := send(t, kind.New(t, url, false), t.Context()); got.Outcome != effect.Retry || got.Reason != effect.ReasonAddress {
				t.Errorf("%+v, want retry, %s", got, effect.ReasonAddress)
			}
		})
	}
}

// closing ends a connection after its script.
func closing(script Script) Script {
	return func(conn net.Conn, req Request) {
		script(conn, req)
		_ = conn.Close()
	}
}

// endless writes until the other side has had enough, at most 64 MiB.
func endless(begin string) Script {
	return func(conn net.Conn, _ Request) {
		_, _ = io.WriteString(conn, begin)
		junk := strings.Repeat("x", 64<<10)
		for range 1024 {
			if _, err := io.WriteString(conn, junk); err != nil {
				return
			}
		}
	}
}

func identical(t *testing.T, kind Kind) {
	target := NewTarget(t, func(conn net.Conn, _ Request) { Reply(conn, "503 No", nil, "") })
	sender := kind.New(t, target.URL, true)
	call := Call(1)
	var err error
	if call.Rendered, err = sender.Render(call); err != nil {
		t.Fatal(err)
	}
	for attempt := 1; attempt <= 3; attempt++ {
		call.Attempt = attempt
		sender.Send(t.Context(), call)
	}
	requests := target.Requests()
	if len(requests) != 3 {
		t.Fatalf("%d requests, want 3", len(requests))
	}
	for _, r := range requests {
		if r.Body != requests[0].Body {
			t.Errorf("bodies differ between attempts: %q and %q", requests[0].Body, r.Body)
		}
		if r.Header.Get(kind.KeyHeader) != call.Key {
			t.Errorf("key %q, want %q", r.Header.Get(kind.KeyHeader), call.Key)
		}
	}
}

// The second request goes out on a connection that the target closes after
// reading it: a transport that sends again by itself makes three.
func resend(t *testing.T, kind Kind) {
	for _, body := range []string{"{}", ""} {
		var n int
		target := NewTarget(t, func(conn net.Conn, _ Request) {
			if n++; n == 1 {
				Reply(conn, "200 OK", nil, "")
				return
			}
			_ = conn.Close()
		})
		sender := kind.New(t, target.URL, true)
		call := Call(1)
		call.Event.Body = []byte(body)
		if got := sender.Send(t.Context(), call); got.Outcome != effect.Done {
			t.Fatalf("%+v, want done", got)
		}
		if got := sender.Send(t.Context(), call); got.Outcome != effect.Unknown {
			t.Errorf("%+v, want unknown", got)
		}
		if got := len(target.Requests()); got != 2 {
			t.Errorf("body %q: %d requests for two attempts", body, got)
		}
	}
}

func retryAfter(t *testing.T, kind Kind) {
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "": 0, "-1": 0, "soon": 0, "99999999999999999999": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0} {
		target := NewTarget(t, func(conn net.Conn, _ Request) {
			Reply(conn, "429 Slow", http.Header{"Retry-After": {value}, "Connection": {"close"}}, "")
		})
		if got := send(t, kind.New(t, target.URL, true), t.Context()); got.RetryAfter != want {
			t.Errorf("Retry-After %q: %s, want %s", value, got.RetryAfter, want)
		}
	}
}

func redirect(t *testing.T, kind Kind) {
	other := NewTarget(t, func(conn net.Conn, _ Request) { Reply(conn, "200 OK", nil, "") })
	for _, status := range []string{"301 A", "302 B", "303 C", "307 D", "308 E"} {
		target := NewTarget(t, func(conn net.Conn, _ Request) {
			Reply(conn, status, http.Header{"Location": {other.URL}, "Connection": {"close"}}, "")
		})
		send(t, kind.New(t, target.URL, true), t.Context())
	}
	if n := len(other.Requests()); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}
