package forward

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/pgtext"
	"github.com/oncegate/oncegate/jobs/effect"
)

// answer classifies a reply. Only the status line decides: a target that has said 2xx has done it,
// even if the rest of the reply is lost.
func (f *Sender) answer(reply *http.Response) effect.Result {
	r := f.classify(reply.StatusCode)
	r.Code = strconv.Itoa(reply.StatusCode)
	if r.Outcome == effect.Retry || r.Outcome == effect.Unknown {
		r.RetryAfter = retryAfter(reply.Header.Get("Retry-After"), f.cfg.Now())
	}
	// The rest of an endless or incomplete reply is lost with its connection.
	body, _ := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	body = f.withoutSecrets(body)
	r.Excerpt = pgtext.Clean(string(body), effect.MaxExcerpt)
	r.Recognised = recognised(reply.Header.Get(f.cfg.ReplayedHeader))
	if f.cfg.KeepReply && r.Outcome == effect.Done && utf8.Valid(body) {
		r.Stored = body
	}
	return r
}

// DefaultRetryOn lists the statuses that by default mean that the target has not begun the work.
// RFC 6585 defines 429 as a refusal of the request because of its rate. No other status that asks
// for a repetition is defined that way: 503 and 408 may come from a proxy in front of a target that
// is working, 409 may mean that an earlier attempt is still running, 425 is about TLS early data,
// and any other 5xx may follow the work.
func DefaultRetryOn() []int { return []int{http.StatusTooManyRequests} }

// classify returns what a status means for the effect. Retry is only for answers that precede the
// work. Unknown is retried at a target that deduplicates, and makes the effect indeterminate at any
// other.
func (f *Sender) classify(status int) effect.Result {
	r := effect.Result{Outcome: effect.Unknown, Reason: reasonOf(status)}
	switch {
	case status >= 200 && status <= 299:
		r.Outcome = effect.Done
	case slices.Contains(f.cfg.RetryOn, status):
		r.Outcome = effect.Retry
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
	case (status == http.StatusFound || status == http.StatusSeeOther) && !f.cfg.Idempotent:
		// A form handler answers like this after the form was processed, so the work may have been
		// done.
	case status >= 300 && status <= 499:
		// A redirect is not followed, because it could lead anywhere, with another method.
		r.Outcome = effect.Dead
	}
	return r
}

// reasonOf returns the reason under which a status is stored and counted.
func reasonOf(status int) string {
	switch status {
	case http.StatusRequestTimeout:
		return reasons.Status408
	case http.StatusConflict:
		return reasons.Status409
	case http.StatusGone:
		return reasons.Status410
	case http.StatusTooEarly:
		return reasons.Status425
	case http.StatusTooManyRequests:
		return reasons.Status429
	case http.StatusServiceUnavailable:
		return reasons.Status503
	}
	switch status / 100 {
	case 1:
		return reasons.Informational
	case 2:
		return ""
	case 3:
		return reasons.Redirect
	case 4:
		return reasons.Status4xx
	}
	return reasons.Status5xx
}

// recognised reads a header that is a boolean in various spellings.
func recognised(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "false", "0", "?0", "no":
		return false
	}
	return true
}

// retryAfter reads seconds or a date (RFC 9110, 10.2.3). It returns 0 for anything else.
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

// withoutSecrets removes our own secrets from a reply that echoes them.
func (f *Sender) withoutSecrets(body []byte) []byte {
	return withoutSecrets(body, f.cfg.Sign, f.keys, f.cfg.Headers)
}

func withoutSecrets(body []byte, signing []string, keys [][]byte, headers map[string]string) []byte {
	for i, secret := range signing {
		body = bytes.ReplaceAll(body, []byte(secret), []byte("<secret>"))
		body = bytes.ReplaceAll(body, keys[i], []byte("<secret>"))
	}
	for _, value := range headers {
		if value != "" {
			body = bytes.ReplaceAll(body, []byte(value), []byte("<header>"))
		}
	}
	return body
}

// once is a body that can be read only once. Its type is one that the standard library cannot
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
