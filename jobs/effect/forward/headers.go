package forward

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
)

// own reports whether a header is one that a forward sets itself, or that the HTTP client controls. A
// configured value would be ignored.
func own(name string) bool {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Host", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect", "Transfer-Encoding", "Content-Length",
		"Content-Encoding", "Content-Type", "User-Agent", "Traceparent":
		return true
	}
	return signature(name) || strings.HasPrefix(name, "Oncegate-")
}

// signature reports whether a header is one of the three of Standard Webhooks. A forward sets them only
// if its target has a signing secret.
func signature(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature":
		return true
	}
	return false
}

// ours reports whether a header is never passed on: it is an own one, it describes the transport, or it
// proves an identity.
func ours(name string) bool {
	switch name {
	case "Authorization", "Cookie", "Set-Cookie", "Forwarded", "X-Real-Ip":
		return true
	}
	return own(name) || strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "X-Forwarded-")
}

// passed returns the names of the headers to pass on, in canonical form.
func passed(cfg Config) ([]string, error) {
	var errs []error
	names := make([]string, 0, len(cfg.Pass))
	for _, name := range cfg.Pass {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !validName(name):
			errs = append(errs, fmt.Errorf("header to pass on %q is not a header's name", name))
		case ours(canonical) || strings.EqualFold(name, cfg.KeyHeader):
			errs = append(errs, fmt.Errorf("header %s is never passed on", canonical))
		default:
			names = append(names, canonical)
		}
	}
	for name := range cfg.Headers {
		for _, p := range names {
			if strings.EqualFold(name, p) {
				errs = append(errs, fmt.Errorf("header %s is both set and passed on", p))
			}
		}
	}
	return names, errors.Join(errs...)
}

// pass copies the delivery's headers that are to be passed on.
func (f *Sender) pass(h, received http.Header) {
	for _, name := range f.passed {
		for _, value := range received[name] {
			h.Add(name, headerValue(value))
		}
	}
}
