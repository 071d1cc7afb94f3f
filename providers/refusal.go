package providers

// Reason says why a request was refused. The set is closed: reasons are metric labels and stored in
// the refusal table.
//
// Stored: never change the text of one.
type Reason string

// These are the reasons for which a request is refused.
const (
	// ReasonUnsigned means that the signature or credential is missing.
	ReasonUnsigned Reason = "unsigned"
	// ReasonMalformed means that the signature header cannot be read.
	ReasonMalformed Reason = "malformed"
	// ReasonMismatch means that the signature is well formed, but no secret matches. Such
	// deliveries are stored completely, so that they can be recovered after a failed rotation.
	ReasonMismatch Reason = "mismatch"
	// ReasonStale means that the signed time is further in the past than the tolerance.
	ReasonStale Reason = "stale"
	// ReasonEarly means that the signed time is further in the future than the tolerance.
	ReasonEarly Reason = "early"
	// ReasonUnidentified means that a caller did not identify its operation as required (only
	// operations).
	ReasonUnidentified Reason = "unidentified"
	// ReasonUnknownOperation means that the source declares its operations, and this is not one of
	// them (only operations).
	ReasonUnknownOperation Reason = "unknown_operation"
)

// Refusal is the error for a request that did not verify. It never contains a header's value, a
// secret or a part of the body.
type Refusal struct {
	Reason Reason
	// Detail is one line for the operator, such as "header Stripe-Signature has no v1 entry".
	Detail string
	// Problem says what a caller of operations must correct. It is empty if the reason is
	// sufficient.
	Problem Problem
	// Reply is the answer that the provider requires in this case. If it is nil, the answer is that
	// of [Provider.Answer].
	Reply *Reply
}

// Error returns the reason and the detail.
func (r *Refusal) Error() string {
	if r.Detail == "" {
		return string(r.Reason)
	}
	return string(r.Reason) + ": " + r.Detail
}
