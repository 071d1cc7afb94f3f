package effect

import (
	"context"
	"time"
)

// DryOutcome is what a target says that it would do.
type DryOutcome string

// The outcomes of a dry run. They are written into audits: never change.
const (
	// DryAccepted: the target would do it.
	DryAccepted DryOutcome = "accepted"
	// DryRefused: the target would refuse it.
	DryRefused DryOutcome = "refused"
	// DryUnknown: it could not be found out.
	DryUnknown DryOutcome = "unknown"
)

// DryCall is one question to a target: what would you do? It is no [Call]: it has no idempotency key and no number of an
// attempt, so that whoever asks has nothing to send the effect with.
type DryCall struct {
	// ID is the question's own id, another one each time.
	ID string

	// Event and Route say what it is about.
	Event Event
	Route string

	// Today is what an attempt would send, made with ID in the place of the idempotency key. Its body is
	// asked about unless the target declares another one; its method and address are those that a dry run must not have.
	Today Request
}

// DryResult is what a target says that it would do, with its evidence.
type DryResult struct {
	Outcome DryOutcome

	// Code is the target's HTTP status; empty if it gave none.
	Code string

	// Body is the reply, at most 64 KiB and without our secrets. Cut: the reply is longer.
	Body []byte
	Cut  bool

	// Reason is why nothing could be found out, in the words of a [Result]; Cause says more.
	Reason, Cause string

	// RetryAfter is the least wait that the target asked for.
	RetryAfter time.Duration
}

// DryRunner asks a target what it would do, by the request that the configuration declares for that and by no other.
type DryRunner interface {
	DryRun(ctx context.Context, call *DryCall) DryResult
}
