package effect

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
)

// Event is what a kind may know about the event it acts on.
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
	// ContentType is the delivery's, as received.
	ContentType string
	// Headers are those kept of the delivery, by their canonical names.
	Headers     http.Header
	Traceparent string

	SequenceKey    string
	SequenceNumber string
}

// Call is one attempt.
type Call struct {
	Event Event
	Route string

	// Key is the idempotency key: the same in every attempt.
	Key string

	// Attempt counts from 1.
	Attempt int

	// Address is where the attempt goes, as [Addresser] made it before the first one; empty
	// if the kind has one address for all.
	Address string

	// Rendered is what Render gave before the first attempt; nil if the kind
	// renders nothing (the body is sent as received).
	Rendered []byte

	payload *payload // nil until somebody asks for it
}

// Sender is a kind that leaves the database. Its outcome may be unknown.
type Sender interface {
	// Render makes what will be sent, once, before the first attempt; it is stored
	// and every attempt sends those bytes. It returns nil to send the body as
	// received. An error is permanent.
	Render(call *Call) ([]byte, error)

	// Send makes one attempt. ctx ends before the lease does.
	Send(ctx context.Context, call *Call) Result

	// Idempotent says whether the target deduplicates by Key. If not, an attempt
	// whose end is unknown is never repeated by itself.
	Idempotent() bool
}

// Transactional is a kind that acts inside our database, exactly once: in the
// transaction that records the outcome.
type Transactional interface {
	Act(ctx context.Context, tx pgx.Tx, call *Call) Result
}

// Outcome is what one attempt came to.
type Outcome string

// Stored: never change.
const (
	// Done: it happened.
	Done Outcome = "done"
	// Retry: it did not happen (or the target deduplicates), try again.
	Retry Outcome = "retry"
	// Dead: no retry can help.
	Dead Outcome = "dead"
	// Unknown: it may have happened. On an idempotent target that is a retry, else
	// the effect is indeterminate.
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

	// Excerpt is at most 2 KiB of what the target said, valid UTF-8 without NUL.
	Excerpt string

	// Cause is why it failed where no target said so: what the connection, the name
	// server, the certificate or the condition of a statement was. It never holds
	// content, an address that was configured, or a secret, so that it may be logged.
	Cause string

	// RetryAfter is the least wait the target asked for.
	RetryAfter time.Duration

	// Stored is what to keep of a success; may be nil.
	Stored []byte

	// NoAttempt: the database refused a statement because a table changed after it was
	// prepared. Nothing was done: the attempt counts for none, and is made again.
	NoAttempt bool

	// Recognised: the target said that it knew the key, so that what it answered is
	// what an earlier attempt did.
	Recognised bool
}
