package providers

// Reason says why a request was refused. The set is closed: reasons are metric
// labels and stored in the refusal table.
//
// Stored: never change the text of one.
type Reason string

// The reasons a request is refused.
const (
	// ReasonUnsigned means that the signature or credential is missing.
	ReasonUnsigned Reason = "unsigned"
	// ReasonMalformed means that the signature header cannot be read.
	ReasonMalformed Reason = "malformed"
	// ReasonMismatch means that the signature is well formed, but no secret matches. Such
	// deliveries are kept whole, so that a rotation that went wrong can be mended.
	ReasonMismatch Reason = "mismatch"
	// ReasonStale means that the signed time is further in the past than the tolerance.
	ReasonStale Reason = "stale"
	// ReasonEarly means that the signed time is further in the future than the tolerance.
	ReasonEarly Reason = "early"
	// ReasonUnidentified means that a caller that must name its operation did not (only
	// operations).
	ReasonUnidentified Reason = "unidentified"
	// ReasonUnknownOperation means that the source declares its operations, and this is none of
	// them (only operations).
	ReasonUnknownOperation Reason = "unknown_operation"
)

// Refusal is the error of a request that did not verify. It never holds a
// header's value, a secret or a part of the body.
type Refusal struct {
	Reason Reason
	// Detail is one line for the operator, such as "header Stripe-Signature has no v1 entry".
	Detail string
	// Problem says what a caller of operations has to mend; empty if the reason says enough.
	Problem Problem
	// Reply is the answer that the provider asks for in this case; nil for that of
	// [Provider.Answer].
	Reply *Reply
}

// Error gives the reason and the detail.
func (r *Refusal) Error() string {
	if r.Detail == "" {
		return string(r.Reason)
	}
	return string(r.Reason) + ": " + r.Detail
}
