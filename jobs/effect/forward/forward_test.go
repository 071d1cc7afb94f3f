package forward_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

func newForward(tb testing.TB, cfg forward.Config) *forward.Sender {
	tb.Helper()
	f, err := forward.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(f.Close)
	return f
}

func TestForwardConforms(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	effecttest.Run(t, effecttest.Forward(func(tb testing.TB, to effecttest.ForwardTo) effect.Sender {
		return newForward(tb, forward.Config{
			URL: to.URL, Sign: []string{effecttest.Secret}, Idempotent: to.Idempotent, RetryOn: to.RetryOn, Resolver: to.Resolver, KeepReply: true,
		})
	}, forward.DefaultKeyHeader))
}

func TestForwardSendsTheBodyAsReceivedAndItsHeaders(t *testing.T) {
	t.Parallel()
	target := effecttest.NewTarget(t, func(conn net.Conn, _ effecttest.Request) { effecttest.Reply(conn, "200 OK", nil, "fine") })
	f := newForward(t, forward.Config{
		URL: target.URL, Sign: []string{"whsec_bmV3", "old"}, KeyHeader: "X-Key", Headers: map[string]string{"X-Own": "yes"},
		Pass: []string{"x-github-event", "X-Absent"},
		Now:  func() time.Time { return time.Unix(1_700_000_123, 0) },
	})
	call := effecttest.Call(3)
	call.Event.Type = "evil\r\nInjected: yes"
	call.Event.Headers = http.Header{"X-Github-Event": {"push", "a\r\nInjected: yes"}, "X-Github-Delivery": {"1"}, "Authorization": {"Bearer x"}}
	if got := f.Send(t.Context(), call); got.Outcome != effect.Done || got.Excerpt != "fine" {
		t.Fatalf("%+v, want done", got)
	}
	got := target.Requests()[0]
	if got.Body != string(call.Event.Body) {
		t.Errorf("body %q, want %q", got.Body, call.Event.Body)
	}
	if passed := got.Header.Values("X-Github-Event"); got.Method != http.MethodPost || !slices.Equal(passed, []string{"push", "a??Injected: yes"}) {
		t.Errorf("%s, passed on %q", got.Method, passed)
	}
	for name, want := range map[string]string{
		"X-Absent": "", "X-Github-Delivery": "", "Authorization": "",
		"Content-Type": call.Event.ContentType, "X-Key": "key-1", "X-Own": "yes", "Traceparent": call.Event.Traceparent,
		"Oncegate-Event": call.Event.ID, "Oncegate-Event-Type": "evil??Injected: yes", "Oncegate-Source": "shop",
		"Oncegate-Sequence-Key": "order_7", "Oncegate-Sequence-Number": "42", "Oncegate-Attempt": "3",
		"Oncegate-Event-Id": "evt_1", "Webhook-Id": "key-1", "Webhook-Timestamp": "1700000123",
		"Webhook-Signature": signature("new", call) + " " + signature("old", call), "Idempotency-Key": "", "Injected": "",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
		}
	}
}

func signature(key string, call *effect.Call) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(call.Key + ".1700000123." + string(call.Event.Body)))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestForwardConfigIsChecked(t *testing.T) {
	t.Parallel()
	_, err := forward.New(forward.Config{
		URL: "ftp://user:hunter2@x/", Method: "GET", Sign: []string{"", "whsec_%%%"}, KeyHeader: "bad header", Timeout: -1,
		Headers: map[string]string{"X-Own": "yes", "host": "b.example", "Content-Type": "text/plain", "oncegate-attempt": "1", "Webhook-Signature": "v1,x"},
		Pass:    []string{"bad name", "authorization", "Webhook-Id", "oncegate-event", "x-own", "Proxy-Connection", "content-length"},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"http or https", "method", "secret 1", "secret 2", "key header", "timeout", `"bad name" is not`, "Authorization is never",
		"Webhook-Id is never", "Oncegate-Event is never", "X-Own is both set and", "Proxy-Connection is never", "Content-Length is never",
		"Host is set by the request", "Content-Type is set by", "Oncegate-Attempt is set by", "Webhook-Signature is set by"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not reported in: %v", want, err)
		}
	}
	_, keyed := forward.New(forward.Config{URL: "https://a.example/", KeyHeader: "X-Once", Headers: map[string]string{"x-once": "1"}})
	if keyed == nil || !strings.Contains(keyed.Error(), "X-Once is set by the request") {
		t.Errorf("a value for the key's header: %v", keyed)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the password is quoted: %v", err)
	}
}

// A connection that was kept may be closed by the target while a request goes out on it,
// and then nobody knows whether the request was read. A target that cannot deduplicate
// gets a connection for each send; one that can is spared them.
func TestForwardConnectsForEachSendThatMustNotRepeat(t *testing.T) {
	t.Parallel()
	for idempotent, want := range map[bool]int{false: 3, true: 1} {
		var mu sync.Mutex
		connections, closing := map[string]int{}, 0
		target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			connections[r.RemoteAddr]++
			if r.Close {
				closing++
			}
			_, _ = io.Copy(w, r.Body)
		}))
		t.Cleanup(target.Close)
		forward := newForward(t, forward.Config{URL: target.URL, Idempotent: idempotent})
		for n := range 3 {
			if r := forward.Send(t.Context(), effecttest.Call(n+1)); r.Outcome != effect.Done {
				t.Fatalf("%+v", r)
			}
		}
		mu.Lock()
		made, told := maps.Clone(connections), closing
		mu.Unlock()
		if len(made) != want {
			t.Errorf("idempotent %t: three sends came on the connections %v, want %d", idempotent, made, want)
		}
		if (told == 3) == idempotent {
			t.Errorf("idempotent %t: the target was told %d times that the connection ends", idempotent, told)
		}
	}
}
