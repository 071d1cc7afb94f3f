package effect

import (
	"context"
	"time"
)

// DryOutcome is what a target says it would do.
type DryOutcome string

// The outcomes of a dry run. They are written into audits: never change.
const (
	// DryAccepted means that the target would do it.
	DryAccepted DryOutcome = "accepted"
	// DryRefused means that the target would refuse it.
	DryRefused DryOutcome = "refused"
	// DryUnknown means that the dry run did not find out.
	DryUnknown DryOutcome = "unknown"
)

// DryCall asks a target what it would do. It is not a [Call]: it has no idempotency key and no attempt number, so a
// DryRunner cannot send the effect with it.
type DryCall struct {
	// ID identifies the question. Every question has a new one.
	ID string

	// Event and Route are the effect that the question is about.
	Event Event
	Route string

	// Today is the request that an attempt would send, made with ID in place of the idempotency key. The dry run sends
	// its body unless the target declares another one. A dry run must not be the same request.
	Today Request
}

// DryResult is a target's answer to a dry run, with its evidence.
type DryResult struct {
	Outcome DryOutcome

	// Code is the target's HTTP status; empty if it gave none.
	Code string

	// Body is the reply, at most 64 KiB and without our secrets. Cut means that the reply is longer.
	Body []byte
	Cut  bool

	// Reason says why the outcome is unknown, with the reasons of a [Result]. Cause has the details.
	Reason, Cause string

	// RetryAfter is the least wait that the target asked for.
	RetryAfter time.Duration
}

// DryRunner asks a target what it would do. It uses only the request that the configuration declares for dry runs.
type DryRunner interface {
	DryRun(ctx context.Context, call *DryCall) DryResult
}
