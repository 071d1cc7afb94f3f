package effect

import "net/http"

// Request is what an attempt would send, for an operator to look at first.
type Request struct {
	// Method and Headers belong to a request over HTTP and are empty for other kinds. The values of
	// configured headers are hidden. The headers of a single attempt (its number, time and
	// signature) are left out.
	Method string
	// Address is where the request goes, if that is computed from the event. It is empty if the
	// target has one address for all.
	Address string
	Headers http.Header

	// Body is the bytes that would be sent.
	Body []byte
}

// Previewer is implemented by kinds that can show what an attempt would send.
type Previewer interface {
	// Preview makes the request of an attempt with the code that sends it, but sends nothing.
	// failure is not nil if the attempt could not be made.
	Preview(call *Call) (r Request, failure *Result)
}
