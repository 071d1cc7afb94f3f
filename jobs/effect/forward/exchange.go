package forward

import "net/http"

// exchange makes one request. A reply that arrives once the request's time is over is
// none: a target that notices that its caller has gone ends its handler, which in many
// frameworks answers 200 by itself, and the transport hands out what arrives while it
// closes the connection. Taken for an answer, it would say that the work was done.
func exchange(transport http.RoundTripper, req *http.Request) (*http.Response, error) {
	reply, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		_ = reply.Body.Close()
		return nil, err
	}
	return reply, nil
}
