package effect

import "net/http"

// Request is what an attempt would send, for a person to look at first.
type Request struct {
	// Method and Headers are those of a request over HTTP; empty for other kinds. The
	// values of configured headers are hidden, and what is the attempt's own (its
	// number, time and signature) is left out.
	Method string
	// Address is where it goes, where that is made of the event; empty where the target has
	// one address for all.
	Address string
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
