package receiver_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/providers"
)

func TestNewReportsEverything(t *testing.T) {
	t.Parallel()
	bad := func(change func(*receiver.Source)) *receiver.Source {
		s := config(&fakeGate{}, newProvider()).Sources["shop"]
		change(s)
		return s
	}
	_, err := receiver.New(receiver.Config{Sources: map[string]*receiver.Source{
		"nothing":   nil,
		"too-large": bad(func(s *receiver.Source) { s.MaxBody = 1 << 40 }),
		"address":   bad(func(s *receiver.Source) { s.ExternalURL = "hooks.example.com" }),
		"rate":      bad(func(s *receiver.Source) { s.Deliveries.N = -1 }),
	}, BodyLimits: receiver.BodyLimits{BodyBytes: 1 << 20, BodyTimeout: -1, LeastBodyRate: -2}})
	for _, want := range []string{"Gate", "Logger", "BodyTimeout", "LeastBodyRate", `"nothing"`, `"too-large"`, `"address"`, `"rate"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	if _, err := receiver.NewServer(receiver.ServerConfig{WriteTimeout: -1}); err == nil {
		t.Error("a server without a handler was made")
	}
}

func TestTheServerHasEveryLimit(t *testing.T) {
	t.Parallel()
	s, err := receiver.NewServer(receiver.ServerConfig{Handler: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if s.ReadHeaderTimeout.Seconds() != 5 || s.WriteTimeout == 0 || s.IdleTimeout == 0 || s.MaxHeaderBytes != 16<<10 {
		t.Errorf("limits %v %v %v %d", s.ReadHeaderTimeout, s.WriteTimeout, s.IdleTimeout, s.MaxHeaderBytes)
	}
}

// Who sent a request, and what it is called, is believed only from a trusted proxy.
func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, test := range map[string]struct {
		trusted   []netip.Prefix
		peer      string
		forwarded string
		remote    string
		believed  bool
	}{
		"no proxy configured":         {nil, "10.1.2.3:4000", "198.51.100.7", "10.1.2.3", false},
		"loopback is not trusted":     {trusted, "127.0.0.1:4000", "198.51.100.7", "127.0.0.1", false},
		"private is not trusted":      {trusted, "192.168.1.1:4000", "198.51.100.7", "192.168.1.1", false},
		"trusted":                     {trusted, "10.1.2.3:4000", "198.51.100.7", "198.51.100.7", true},
		"trusted, of version 6":       {trusted, "[fd00::1]:4000", "2001:db8::7", "2001:db8::7", true},
		"what a sender put before it": {trusted, "10.1.2.3:4000", "203.0.113.9, 198.51.100.7, 10.9.9.9", "198.51.100.7", true},
		"nothing forwarded":           {trusted, "10.1.2.3:4000", "", "10.1.2.3", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusals := &keeper{}
			cfg := config(&fakeGate{}, newProvider())
			cfg.TrustedProxies, cfg.Refusals = test.trusted, refusals
			handler := newReceiver(t, cfg)
			req := newRequest(t, &answerCase{body: event, header: map[string]string{"X-Signature": "00", "X-Request-Id": "abc-123"}})
			req.RemoteAddr = test.peer
			if test.forwarded != "" {
				req.Header.Set("X-Forwarded-For", test.forwarded)
			}
			req.Header.Set("X-Real-Ip", "203.0.113.1")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, req)
			if got := refusals.refusals()[0].Remote; got != test.remote {
				t.Errorf("remote %s, want %s", got, test.remote)
			}
			if id := answer.Header().Get("X-Request-Id"); id == "" || (id == "abc-123") != test.believed {
				t.Errorf("request id %q", id)
			}
		})
	}
}

func TestRequestIDsAreOneOfAKind(t *testing.T) {
	t.Parallel()
	cfg := config(&fakeGate{}, newProvider())
	cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} // httptest's peer
	handler := newReceiver(t, cfg)
	seen := map[string]bool{}
	for _, given := range []string{"", "", "good-id_1.2", "line\nbreak", "quote\"", strings.Repeat("x", 129), "\xff"} {
		req := newRequest(t, &answerCase{body: event})
		if given != "" {
			req.Header["X-Request-Id"] = []string{given}
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, req)
		id := answer.Header().Get("X-Request-Id")
		if seen[id] || id == "" || (id == given) != (given == "good-id_1.2") {
			t.Errorf("given %q, answered %q", given, id)
		}
		seen[id] = true
	}
}

// asking keeps the request the provider was asked about.
type asking struct {
	*provider
	asked *providers.Request
}

func (a asking) Verify(req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error) {
	*a.asked = *req
	return a.provider.Verify(req, secrets)
}

func TestWhatTheProviderIsAskedAbout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		external, path, proto, want string
	}{
		"as requested":       {"", "/in/shop?a=%20b", "", "http://example.com/in/shop?a=%20b"},
		"behind a proxy":     {"", "/in/shop", "https", "https://example.com/in/shop"},
		"configured":         {"https://hooks.example.org/in/shop", "/in/shop", "", "https://hooks.example.org/in/shop"},
		"configured, with ?": {"https://hooks.example.org/in/shop", "/in/shop?b=2&a=1", "", "https://hooks.example.org/in/shop?b=2&a=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked providers.Request
			cfg := config(&fakeGate{}, asking{newProvider(), &asked})
			cfg.Sources["shop"].ExternalURL = test.external
			cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			handler := newReceiver(t, cfg)
			req := newRequest(t, &answerCase{path: test.path, body: event})
			if test.proto != "" {
				req.Header.Set("X-Forwarded-Proto", test.proto)
			}
			handler.ServeHTTP(httptest.NewRecorder(), req)
			if asked.URL != test.want {
				t.Errorf("URL %s, want %s", asked.URL, test.want)
			}
			// A GET says whether this is the address that its sender expects, and never which one it is.
			for expected, want := range map[string]string{test.want: "true", "https://other.example/in/shop": "false", "": ""} {
				req := newRequest(t, &answerCase{method: http.MethodGet, path: test.path})
				if test.proto != "" {
					req.Header.Set("X-Forwarded-Proto", test.proto)
				}
				req.Header.Set(receiver.HeaderExpectAddress, expected)
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, req)
				if got := answer.Header().Get(receiver.HeaderAddressExpected); got != want || answer.Code != http.StatusMethodNotAllowed {
					t.Errorf("a GET that expects %q was answered %d and %q, want 405 and %q", expected, answer.Code, got, want)
				}
			}
			// PostgreSQL keeps microseconds: what is stored must equal what was verified.
			if want := now.Truncate(1000); !asked.ReceivedAt.Equal(want) {
				t.Errorf("received at %v, want %v", asked.ReceivedAt, want)
			}
		})
	}
}

// What the gate is given, word by word.
func TestTheAdmission(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" // W3C Trace Context, 3.2
	g := &fakeGate{}
	handler := newReceiver(t, config(g, newProvider()))
	body := ` [ {"id":"a"} , {"id":"b"} ] `
	for _, given := range []string{trace, strings.ToUpper(trace), trace + "0", "01" + trace[2:], trace[:35] + "x" + trace[36:], ""} {
		req := newRequest(t, &answerCase{body: body})
		req.Header.Set("Traceparent", given)
		req.Header.Set("User-Agent", "a \"quoted\" \\ agent\xff")
		handler.ServeHTTP(httptest.NewRecorder(), req)
	}
	seen := g.admissions()
	for i, a := range seen {
		want := ""
		if i == 0 {
			want = trace
		}
		if a.Traceparent != want {
			t.Errorf("traceparent %q, want %q", a.Traceparent, want)
		}
	}
	a := seen[0]
	if a.Source.ID != 7 || !a.IDUnsigned || string(a.Body) != body || len(a.Events) != 2 {
		t.Fatalf("admission %+v", a)
	}
	for i, want := range []string{`{"id":"a"}`, `{"id":"b"}`} {
		e := a.Events[i]
		if got := body[e.Offset : e.Offset+e.Length]; got != want || e.Type != "test" || !e.OccurredAt.Equal(now) ||
			e.SequenceKey != "k" || e.SequenceNumber != "7" {
			t.Errorf("event %d is %q: %+v", i, got, e)
		}
	}
	kept := http.Header{}
	if err := json.Unmarshal(a.Headers, &kept); err != nil {
		t.Fatalf("%v: %s", err, a.Headers)
	}
	if kept.Get("Content-Type") != "application/json" || kept.Get("User-Agent") != "a \"quoted\" \\ agent\uFFFD" || len(kept) != 2 {
		t.Errorf("kept headers %v", kept)
	}
}

// Lines people follow a delivery by; and nothing of a body or a signature, ever.
func TestLogs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer answerCase
		want   []string
	}{
		"recorded":  {answerCase{gate: answering(inbox.Recorded)}, []string{`"msg":"event recorded"`, `"outcome":"recorded"`, `"id":"evt_1"`, `"event":"` + recordedID + `"`, `"source":"shop"`, `"payload_hash":"`, `"elapsed_ms":`, `"node":"host-1"`}},
		"duplicate": {answerCase{gate: answering(inbox.Duplicate)}, []string{`"msg":"duplicate recognised"`}},
		"conflict":  {answerCase{gate: answering(inbox.Conflict)}, []string{`"msg":"conflict recorded"`}},
		"unusable":  {answerCase{body: "canary", gate: answering(inbox.Recorded)}, []string{`"msg":"event unusable"`, `"reason":"not JSON"`}},
		"refused":   {answerCase{header: map[string]string{"X-Signature": "00"}}, []string{`"msg":"delivery refused"`, `"reason":"mismatch"`, `"remote":"192.0.2.1"`}},
		"fault":     {answerCase{gate: failing(gate.ErrUnavailable)}, []string{`"msg":"delivery not recorded"`, `"level":"ERROR"`}},
		"panic":     {answerCase{header: map[string]string{"X-Provoke": "panic"}}, []string{`"msg":"delivery panicked"`, `"panic":"string"`, "deliver.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			if test.answer.gate == nil {
				test.answer.gate = &fakeGate{}
			}
			if test.answer.body == "" {
				test.answer.body = `{"id":"evt_1","text":"canary"}`
			}
			cfg := config(test.answer.gate, newProvider())
			cfg.Logger, cfg.Node = slog.New(slog.NewJSONHandler(&log, nil)), "host-1"
			handler := newReceiver(t, cfg)
			handler.ServeHTTP(httptest.NewRecorder(), newRequest(t, &test.answer))
			for _, want := range test.want {
				if !strings.Contains(log.String(), want) {
					t.Errorf("no %s in %s", want, &log)
				}
			}
			for _, secret := range []string{"canary", sign(test.answer.body), string(key), "secret content"} {
				if strings.Contains(log.String(), secret) {
					t.Errorf("the log holds %q: %s", secret, &log)
				}
			}
		})
	}
}

// With a secret under which hashes are stored, none is in the log without it.
func TestTheLogHasNoHashesOfSealedContent(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0a", sha256.Size)
	for sealed, secret := range map[bool]inbox.InstallationSecret{true: installation, false: {}} {
		var log bytes.Buffer
		cfg := config(answering(inbox.Recorded), newProvider())
		cfg.Logger, cfg.Installation = slog.New(slog.NewJSONHandler(&log, nil)), secret
		newReceiver(t, cfg).ServeHTTP(httptest.NewRecorder(), newRequest(t, &answerCase{body: `{"id":"sha256:` + digest + `"}`}))
		for _, hash := range []string{"payload_hash", digest} {
			if strings.Contains(log.String(), hash) == sealed {
				t.Errorf("sealed %t: whether the log has %s is wrong: %s", sealed, hash, &log)
			}
		}
	}
}

// A flood writes a line a second, not one each, unless the logger sees to that.
func TestRefusalsAreLoggedSparingly(t *testing.T) {
	t.Parallel()
	for every, want := range map[bool]int{false: 1, true: 500} {
		var log bytes.Buffer
		cfg := config(&fakeGate{}, newProvider())
		cfg.Logger, cfg.LogEvery = slog.New(slog.NewJSONHandler(&log, nil)), every
		handler := newReceiver(t, cfg)
		for range 500 {
			handler.ServeHTTP(httptest.NewRecorder(), newRequest(t, &answerCase{body: event, header: map[string]string{"X-Signature": "00"}}))
		}
		if n := strings.Count(log.String(), "\n"); n != want {
			t.Errorf("%d lines, want %d", n, want)
		}
		for line := range strings.Lines(log.String()) {
			if !slices.ContainsFunc(receiver.UnprovedMessages(), func(m string) bool { return strings.Contains(line, `"msg":"`+m+`"`) }) {
				t.Fatalf("anybody can bring this line about, and it is not among those: %s", line)
			}
		}
	}
}
