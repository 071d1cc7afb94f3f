package effect

import "context"

// Fetcher gets what an event only names, before an attempt. It changes nothing at the server that it asks.
type Fetcher interface {
	// Fetch makes one request. If the result is Done, answer is one JSON value. Any other result is Retry or Dead and
	// never Unknown, because nothing was sent to the target. Operators see its Cause, so it must not quote the event.
	Fetch(ctx context.Context, call *Call) (answer []byte, result Result)
}
