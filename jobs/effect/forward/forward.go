// Package forward sends events to targets over HTTP. [New] makes a [Sender] for one URL. [NewProber] makes a
// [Prober], which asks such a target whether it has done an effect.
package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/jobs/effect"
)

// The headers of a forward. They are an interface: never change.
const (
	// HeaderEvent is Oncegate's id of the event. Answers to deliveries carry it too.
	HeaderEvent = "Oncegate-Event"
	// HeaderEventID is the provider's id of the event. Two routes to one target share it, so deduplicate by the
	// idempotency key instead.
	HeaderEventID = "Oncegate-Event-Id"
	// HeaderType is the provider's type of the event.
	HeaderType = "Oncegate-Event-Type"
	// HeaderSource is the name of the source.
	HeaderSource = "Oncegate-Source"
	// HeaderAttempt is the number of the attempt, from 1.
	HeaderAttempt = "Oncegate-Attempt"
	// HeaderSequenceKey is a hash of the sequence key, in an ordered route.
	HeaderSequenceKey = "Oncegate-Sequence-Key"
	// HeaderSequenceNumber is the sequence number, in an ordered route. A target can refuse a number that is
	// lower than one it has seen.
	HeaderSequenceNumber = "Oncegate-Sequence-Number"
	// DefaultKeyHeader is the idempotency key of a forward. Every effect has its own, the same in every attempt
	// and after a replay; `--new-key` makes a new one. key_header names another header. Callers of operations
	// send their own key in it.
	DefaultKeyHeader = "Idempotency-Key"

	// DefaultReplayedHeader is `true` in a reply if the key was known before: in a target's reply to a forward,
	// and in Oncegate's answer to a repeated operation.
	DefaultReplayedHeader = "Idempotent-Replayed"
)

// maxReply bounds how much of a reply is read.
const maxReply = 64 << 10

// Config configures a [Sender]. URL is required.
type Config struct {
	// URL is where events go: http or https, without user and fragment. Its path and its query may contain
	// expressions in braces: "https://api.example/orders/{body.id}".
	URL string

	// Values computes the expressions in URL, by their texts. The results are escaped for their place.
	Values map[string]Value

	// Method defaults to POST; PUT and PATCH are possible.
	Method string

	// Sign are the secrets that sign the request as Standard Webhooks specifies. Each makes one signature, so
	// that the target can rotate. A secret is "whsec_" and base64, or plain text. Without secrets the request is
	// not signed.
	Sign []string

	// Idempotent means that the target deduplicates by the key header.
	Idempotent bool

	// RetryOn lists the statuses (400 to 599) with which the target says that it has not begun the work. Such an
	// answer is retried even if the target cannot deduplicate. nil is the default of 429 alone. A list replaces
	// the default: if it lacks 429, that answer is an unknown outcome too.
	RetryOn []int

	// KeyHeader is the header of the idempotency key. It defaults to
	// Idempotency-Key.
	KeyHeader string

	// ReplayedHeader is the header of a reply with which the target says that it knew the key. Any value except
	// an empty one, "false", "0", "?0" and "no" says so. It defaults to Idempotent-Replayed.
	ReplayedHeader string

	// KeepReply keeps the body of a success, up to 64 KiB of valid UTF-8, as the effect's result. Callers of
	// operations then get it.
	KeepReply bool

	// Headers are sent with every request. [New] refuses those that the request has anyway.
	Headers map[string]string

	// Pass are the headers of the delivery that are passed on, none by default. The content type always is,
	// credentials never are.
	Pass []string

	// Timeout bounds one attempt. 0 leaves it to the caller's context.
	Timeout time.Duration

	// Connections bounds the idle connections to the target. It defaults to 512, because attempts begin in
	// groups and an attempt without an idle connection must connect.
	Connections int

	// Allow are the private networks that the target's name may resolve to. An address in URL itself is allowed,
	// unless it is one that no target may have.
	Allow []netip.Prefix

	// Resolver resolves the target's name. It defaults to the standard library's.
	Resolver *net.Resolver

	// Now returns the time of the signature. It defaults to time.Now.
	Now func() time.Time
}

// Sender sends events over HTTP, with the body as received, byte for byte. It follows no redirect, uses no proxy
// and never lets the transport repeat a request.
type Sender struct {
	cfg       Config
	url       *url.URL // of a template, with "x" for its values
	template  *template
	keys      [][]byte
	passed    []string
	transport *http.Transport
}

var _ effect.Sender = (*Sender)(nil)

// New makes a Sender, or reports everything that is wrong with cfg.
func New(cfg Config) (*Sender, error) {
	f := &Sender{cfg: cfg}
	var errs []error
	var err error
	if f.template, f.url, err = targetTemplate(cfg.URL, cfg.Values); err != nil {
		errs = append(errs, err)
	}
	switch cfg.Method {
	case "":
		f.cfg.Method = http.MethodPost
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	default:
		errs = append(errs, fmt.Errorf("method %q: want POST, PUT or PATCH", cfg.Method))
	}
	for i, secret := range cfg.Sign {
		key, err := signingKey(secret)
		if err != nil {
			errs = append(errs, fmt.Errorf("signing secret %d: %w", i+1, err))
		}
		f.keys = append(f.keys, key)
	}
	if f.cfg.KeyHeader == "" {
		f.cfg.KeyHeader = DefaultKeyHeader
	}
	if !validName(f.cfg.KeyHeader) {
		errs = append(errs, fmt.Errorf("key header %q is not a header's name", f.cfg.KeyHeader))
	}
	if f.cfg.ReplayedHeader == "" {
		f.cfg.ReplayedHeader = DefaultReplayedHeader
	}
	if !validName(f.cfg.ReplayedHeader) {
		errs = append(errs, fmt.Errorf("replayed header %q is not a header's name", f.cfg.ReplayedHeader))
	}
	for name, value := range cfg.Headers {
		switch {
		case !validName(name) || !validValue(value):
			errs = append(errs, fmt.Errorf("header %q is not valid", name))
		case signature(name) && len(cfg.Sign) == 0: // nothing else sets it, so the configured value is sent
		case own(name), strings.EqualFold(name, f.cfg.KeyHeader):
			errs = append(errs, fmt.Errorf("header %s is set by the request itself and would be ignored here: remove it", http.CanonicalHeaderKey(name)))
		}
	}
	if f.passed, err = passed(f.cfg); err != nil {
		errs = append(errs, err)
	}
	if f.cfg.RetryOn == nil {
		f.cfg.RetryOn = DefaultRetryOn()
	}
	for _, status := range cfg.RetryOn {
		if status < 400 || status > 599 {
			errs = append(errs, fmt.Errorf("retry_on: %d: want statuses from 400 to 599", status))
		}
	}
	if cfg.Timeout < 0 || cfg.Connections < 0 {
		errs = append(errs, errors.New("timeout and connections must not be negative"))
	}
	if cfg.Connections == 0 {
		f.cfg.Connections = 512
	}
	if cfg.Now == nil {
		f.cfg.Now = time.Now
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	guard := egress.New(egress.Config{Allow: append(egress.Named(f.url.Hostname()), cfg.Allow...), Resolver: cfg.Resolver})
	f.transport = &http.Transport{
		Proxy:               nil, // never from the environment
		DialContext:         guard.DialContext,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 10 * time.Second,
		// The target may close a kept-alive connection while a request goes out on it, and the outcome is then
		// unknown. A target that does not deduplicate therefore gets a new connection for each request.
		DisableKeepAlives: !cfg.Idempotent,
		// HTTP/2 repeats a request by itself if it considers it unprocessed.
		ForceAttemptHTTP2:      false,
		MaxIdleConnsPerHost:    f.cfg.Connections,
		IdleConnTimeout:        30 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxReply,
		DisableCompression:     true,
	}
	return f, nil
}

// targetTemplate parses a target's address and the expressions in it.
func targetTemplate(address string, values map[string]Value) (*template, *url.URL, error) {
	t, err := parseTemplate(address)
	if err != nil {
		return nil, nil, err
	}
	for i := range t.places {
		p := &t.places[i]
		if p.value = values[p.expression]; p.value == nil {
			return nil, nil, errors.New("url: an expression in braces has no value; write a literal brace as %7B or %7D")
		}
	}
	u, err := targetURL(strings.Join(t.literals, "x"))
	return t, u, err
}

// targetURL parses a target's address. Its errors never quote the address, because it may contain a token.
func targetURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("url cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("url: want http or https")
	case u.Host == "" || u.Hostname() == "":
		return nil, errors.New("url has no host")
	case u.User != nil:
		return nil, errors.New("url must not carry a user or password")
	case u.Fragment != "":
		return nil, errors.New("url must not have a fragment")
	}
	return u, nil
}

// Render implements [effect.Sender]. The body is sent as received, so nothing is stored.
func (f *Sender) Render(*effect.Call) ([]byte, error) { return nil, nil }

// Idempotent implements [effect.Sender].
func (f *Sender) Idempotent() bool { return f.cfg.Idempotent }

// Close closes the connections kept to the target.
func (f *Sender) Close() { f.transport.CloseIdleConnections() }

// Send implements [effect.Sender].
func (f *Sender) Send(ctx context.Context, call *effect.Call) effect.Result {
	if f.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.cfg.Timeout)
		defer cancel()
	}
	var stage stage
	req, err := f.request(stage.trace(ctx), call)
	if err != nil {
		return effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
	}
	// The transport is used without a client, so there are no redirects and no cookies.
	reply, err := exchange(f.transport, req)
	if err != nil {
		return failure(ctx, err, &stage)
	}
	defer reply.Body.Close()
	return f.answer(reply)
}

func (f *Sender) request(ctx context.Context, call *effect.Call) (*http.Request, error) {
	body := call.Event.Body
	if call.Rendered != nil {
		body = call.Rendered
	}
	address, err := f.address(call)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, f.cfg.Method, address, &once{b: body})
	if err != nil {
		return nil, err
	}
	req.ContentLength = int64(len(body))
	// Without GetBody the transport cannot repeat the request by itself. For the same reason an empty body is
	// not http.NoBody.
	req.GetBody = nil
	h := req.Header
	f.pass(h, call.Event.Headers)
	for name, value := range f.cfg.Headers {
		h.Set(name, value)
	}
	for name, value := range map[string]string{
		"Content-Type":       call.Event.ContentType,
		"User-Agent":         "Oncegate",
		f.cfg.KeyHeader:      call.Key,
		HeaderEvent:          call.Event.ID,
		HeaderEventID:        call.Event.EventID,
		HeaderType:           call.Event.Type,
		HeaderSource:         call.Event.Source,
		HeaderAttempt:        strconv.Itoa(call.Attempt),
		HeaderSequenceKey:    call.Event.SequenceKey,
		HeaderSequenceNumber: call.Event.SequenceNumber,
		"Traceparent":        call.Event.Traceparent,
	} {
		if value != "" {
			h.Set(name, headerValue(value))
		}
	}
	if call.Event.ContentType == "" {
		h["Content-Type"] = nil // none was received, so none is sent
	}
	f.sign(h, call.Key, body)
	return req, nil
}

// headerValue makes a text from an event valid as a header value, because an event's type may contain any
// character.
func headerValue(s string) string {
	if validValue(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

func validValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// validName reports whether s is a token of RFC 9110, 5.6.2.
func validName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// stage is how far an attempt has got. Only an attempt that failed before the first byte of the request was
// written is known not to have happened.
type stage struct {
	connected atomic.Bool
	handshake atomic.Bool // TLS began and has not ended well
	wrote     atomic.Bool
}

func (s *stage) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:           func(httptrace.GotConnInfo) { s.connected.Store(true) },
		TLSHandshakeStart: func() { s.handshake.Store(true) },
		TLSHandshakeDone:  func(_ tls.ConnectionState, err error) { s.handshake.Store(err != nil) },
		// Headers are first written into a buffer, and only a flushed buffer may have been sent. The earliest
		// signal is the safe one.
		WroteHeaderField: func(string, []string) { s.wrote.Store(true) },
		WroteHeaders:     func() { s.wrote.Store(true) },
	})
}

// failure classifies an attempt that got no reply.
func failure(ctx context.Context, err error, s *stage) effect.Result {
	if s.wrote.Load() {
		r := effect.Result{Outcome: effect.Unknown, Reason: reasons.Connection, Cause: effect.SafeError(err)}
		switch {
		case effect.TimedOut(ctx, err):
			r.Reason = reasons.Timeout
		case ctx.Err() != nil:
			r.Reason = reasons.Stopped
		case strings.Contains(err.Error(), "malformed HTTP"):
			r.Reason = reasons.Reply
		}
		return r
	}
	r := effect.NotReached(ctx, err)
	if s.handshake.Load() && r.Reason != reasons.Address && r.Reason != reasons.DNS {
		r.Reason = reasons.TLS
	}
	return r
}
