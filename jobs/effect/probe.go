package effect

import "context"

// ProbeOutcome is what a probe found out about an effect whose end was not seen.
type ProbeOutcome string

// The outcomes of a probe. They are labels: never change.
const (
	// ProbeDone: the target has done it.
	ProbeDone ProbeOutcome = "done"
	// ProbeAbsent: the target knows nothing of it.
	ProbeAbsent ProbeOutcome = "absent"
	// ProbeUnknown: it could not be found out.
	ProbeUnknown ProbeOutcome = "unknown"
)

// ProbeResult is an outcome with its evidence.
type ProbeResult struct {
	Outcome ProbeOutcome

	// Code is the target's HTTP status; empty if it gave none.
	Code string

	// Stored is what to keep of the answer of a target that has done it; may be nil.
	Stored []byte
}

// Prober asks a target whether it has done an effect, by its key. It changes
// nothing there.
type Prober interface {
	Probe(ctx context.Context, call *Call) ProbeResult
}
