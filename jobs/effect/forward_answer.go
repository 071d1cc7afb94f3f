package effect

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// answer classifies a reply. The status line alone decides: a target that has
// said 2xx has done it, whatever becomes of the rest of the reply.
func (f *Forward) answer(reply *http.Response) Result {
	r := classify(reply.StatusCode)
	r.Code = strconv.Itoa(reply.StatusCode)
	if r.Outcome == Retry || r.Outcome == Unknown {
		r.RetryAfter = retryAfter(reply.Header.Get("Retry-After"), f.cfg.Now())
	}
	// What is left of an endless or half reply is lost with its connection.
	body, _ := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	body = f.withoutSecrets(body)
	r.Excerpt = Clean(string(body), MaxExcerpt)
	r.Recognised = recognised(reply.Header.Get(f.cfg.ReplayedHeader))
	if f.cfg.KeepReply && r.Outcome == Done && utf8.Valid(body) {
		r.Stored = body
	}
	return r
}

// classify says of every status what it means for the effect.
func classify(status int) Result {
	switch {
	case status >= 200 && status <= 299:
		return Result{Outcome: Done}
	case status == http.StatusRequestTimeout:
		return Result{Outcome: Retry, Reason: ReasonStatus408}
	case status == http.StatusConflict:
		// The first attempt with this key is still under way there.
		return Result{Outcome: Retry, Reason: ReasonStatus409}
	case status == http.StatusGone:
		return Result{Outcome: Dead, Reason: ReasonStatus410}
	case status == http.StatusTooEarly:
		return Result{Outcome: Retry, Reason: ReasonStatus425}
	case status == http.StatusTooManyRequests:
		return Result{Outcome: Retry, Reason: ReasonStatus429}
	case status == http.StatusServiceUnavailable:
		return Result{Outcome: Retry, Reason: ReasonStatus503}
	case status >= 400 && status <= 499:
		return Result{Outcome: Dead, Reason: ReasonStatus4xx}
	case status >= 300 && status <= 399:
		// Followed, it could lead anywhere, and with another method.
		return Result{Outcome: Dead, Reason: ReasonRedirect}
	case status >= 100 && status <= 199:
		return Result{Outcome: Unknown, Reason: ReasonInformational}
	}
	// It may have failed before, in or after the work.
	return Result{Outcome: Unknown, Reason: ReasonStatus5xx}
}

// recognised reads a header that is a boolean in one spelling or another.
func recognised(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "false", "0", "?0", "no":
		return false
	}
	return true
}

// retryAfter reads seconds or a date (RFC 9110, 10.2.3); anything else is none.
func retryAfter(s string, now time.Time) time.Duration {
	s = strings.TrimSpace(s)
	if seconds, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// withoutSecrets takes our own secrets out of a reply that echoes them.
func (f *Forward) withoutSecrets(body []byte) []byte {
	for i, secret := range f.cfg.Sign {
		body = bytes.ReplaceAll(body, []byte(secret), []byte("<secret>"))
		body = bytes.ReplaceAll(body, f.keys[i], []byte("<secret>"))
	}
	for _, value := range f.cfg.Headers {
		if value != "" {
			body = bytes.ReplaceAll(body, []byte(value), []byte("<header>"))
		}
	}
	return body
}

// once is a body that can be read once, of a type the standard library cannot
// rewind.
type once struct {
	b []byte
}

// Read implements [io.Reader].
func (o *once) Read(p []byte) (int, error) {
	if len(o.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, o.b)
	o.b = o.b[n:]
	return n, nil
}

// Close implements [io.Closer].
func (o *once) Close() error { return nil }
