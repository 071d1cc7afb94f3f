package effect

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
)

// Event is what a kind may know about the event for which it acts.
type Event struct {
	ID         string // our uuid
	Source     string
	Provider   string
	EventID    string // the provider's id
	Type       string
	OccurredAt time.Time // zero if the provider gave none
	ReceivedAt time.Time
	// Body is the event's own bytes, as received.
	Body []byte
	// Document is the JSON document that the body carries, such as the claims of a signed token. It
	// is nil if the body is the document.
	Document []byte
	// ContentType is the content type of the delivery, as received.
	ContentType string
	// Headers are the delivery's headers that were kept, by their canonical names.
	Headers     http.Header
	Traceparent string

	SequenceKey    string
	SequenceNumber string

	// Fetched is the answer of the route's fetch, as JSON. It is nil if the route has none.
	Fetched []byte
}

// JSON returns the document that expressions and templates read: Document, or else Body.
func (e *Event) JSON() []byte {
	if e.Document != nil {
		return e.Document
	}
	return e.Body
}

// Call is one attempt.
type Call struct {
	Event Event
	Route string

	// Key is the idempotency key. It is the same in every attempt.
	Key string

	// Attempt counts from 1.
	Attempt int

	// Address is where the attempt goes, as [Addresser] computed it before the first attempt. It is
	// empty if the kind has one address for all.
	Address string

	// Rendered is what Render returned before the first attempt. It is nil if the kind renders
	// nothing; then the body is sent as received.
	Rendered []byte

	payload *payload // nil until Payload is called
	answer  *payload // nil until FetchedPayload is called
}

// Sender is a kind that leaves the database. Its outcome may be unknown.
type Sender interface {
	// Render makes the bytes to send, once, before the first attempt. They are stored, and every
	// attempt sends them. It returns nil to send the body as received. An error is permanent.
	Render(call *Call) ([]byte, error)

	// Send makes one attempt. ctx ends before the lease does.
	Send(ctx context.Context, call *Call) Result

	// Idempotent reports whether the target deduplicates by Key. If not, an attempt whose end is
	// unknown is never repeated automatically.
	Idempotent() bool
}

// Transactional is a kind that acts inside our database, exactly once, in the transaction that
// records the outcome.
type Transactional interface {
	Act(ctx context.Context, tx pgx.Tx, call *Call) Result
}

// Outcome is how one attempt ended.
type Outcome string

// Stored: never change.
const (
	// Done means that the effect happened.
	Done Outcome = "done"
	// Retry means that it did not happen, or that the target deduplicates. It is tried again.
	Retry Outcome = "retry"
	// Dead means that no retry can help.
	Dead Outcome = "dead"
	// Unknown means that it may have happened. At an idempotent target it is retried. At any other
	// target the effect becomes indeterminate.
	Unknown Outcome = "unknown"
)

// Result is the outcome of one attempt with its evidence.
type Result struct {
	Outcome Outcome

	// Reason is one of a closed set (timeout, refused_connection, status_5xx, ...),
	// used in metrics and rows.
	Reason string

	// Code is the target's own code: an HTTP status, an SQLSTATE.
	Code string

	// Excerpt is the start of what the target said, at most 2 KiB of valid UTF-8 without NUL.
	Excerpt string

	// Cause is why the attempt failed if the target did not say so: the problem of the connection,
	// the name server or the certificate, or the condition of a statement. It never contains event
	// content, a configured address or a secret, so it may be logged.
	Cause string

	// RetryAfter is the least wait that the target asked for.
	RetryAfter time.Duration

	// Stored is what to keep of a success. It may be nil.
	Stored []byte

	// NoAttempt means that the database refused a statement because a table changed after it was
	// prepared. Nothing was done, so the attempt is not counted and is made again.
	NoAttempt bool

	// Recognised means that the target said that it knew the key, so its answer is the result of an
	// earlier attempt.
	Recognised bool
}
