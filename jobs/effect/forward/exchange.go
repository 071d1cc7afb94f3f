package forward

import "net/http"

// exchange makes one request. It discards a reply that arrives after the request's time is over. A
// target that notices that its caller has gone ends its handler, which in many frameworks answers
// 200, and the transport returns what arrives while it closes the connection. Such a reply would
// wrongly say that the work was done.
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
