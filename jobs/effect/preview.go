package effect

import (
	"context"
	"net/http"
	"slices"
)

// Request is what an attempt would send, for a person to look at first.
type Request struct {
	// Method and Headers are those of a request over HTTP; empty for other kinds. The
	// values of configured headers are hidden, and what is the attempt's own (its
	// number, time and signature) is left out.
	Method  string
	Headers http.Header

	// Body is the bytes that would go out.
	Body []byte
}

// Previewer is implemented by kinds that can tell what an attempt would send.
type Previewer interface {
	// Preview makes the request of an attempt by the code that sends it, and sends
	// nothing. failure is not nil if the attempt could not be made.
	Preview(call *Call) (r Request, failure *Result)
}

var (
	_ Previewer = (*Forward)(nil)
	_ Previewer = (*Mail)(nil)
	_ Previewer = (*SQL)(nil)
)

// hiddenHeader stands for the value of a configured header: it may be a
// credential.
const hiddenHeader = "<secret>"

// Preview implements [Previewer].
func (f *Forward) Preview(call *Call) (Request, *Result) {
	req, err := f.request(context.Background(), call)
	if err != nil {
		return Request{}, &Result{Outcome: Dead, Reason: ReasonRender}
	}
	for name := range f.cfg.Headers {
		if own := http.CanonicalHeaderKey(name); slices.Equal(req.Header[own], []string{f.cfg.Headers[name]}) {
			req.Header[own] = []string{hiddenHeader}
		}
	}
	// The id of the signature is the key, which is told apart.
	for _, name := range []string{HeaderAttempt, "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		req.Header.Del(name)
	}
	body := call.Event.Body
	if call.Rendered != nil {
		body = call.Rendered
	}
	return Request{Method: req.Method, Headers: req.Header, Body: body}, nil
}

// Preview implements [Previewer].
func (m *Mail) Preview(call *Call) (Request, *Result) {
	if _, _, _, err := envelope(call.Rendered); err != nil {
		return Request{}, &Result{Outcome: Dead, Reason: ReasonRender}
	}
	return Request{Body: call.Rendered}, nil
}

// Preview implements [Previewer]. The body is the event's: what the statement
// gets is made of it.
func (s *SQL) Preview(call *Call) (Request, *Result) {
	if _, failure := s.Arguments(call); failure != nil {
		return Request{}, failure
	}
	return Request{Body: call.Event.Body}, nil
}
