package effect

import "context"

// ProbeOutcome is what a probe found out about an effect whose end is unknown.
type ProbeOutcome string

// The outcomes of a probe. They are labels: never change.
const (
	// ProbeDone means that the target has done it.
	ProbeDone ProbeOutcome = "done"
	// ProbeAbsent means that the target does not know it.
	ProbeAbsent ProbeOutcome = "absent"
	// ProbeUnknown means that the probe did not find out.
	ProbeUnknown ProbeOutcome = "unknown"
)

// ProbeResult is an outcome with its evidence.
type ProbeResult struct {
	Outcome ProbeOutcome

	// Code is the target's HTTP status; empty if it gave none.
	Code string

	// Stored is what to keep of the answer, if the target has done the effect. It may be nil.
	Stored []byte
}

// Prober asks a target by the effect's key whether it has done an effect. It changes nothing at the
// target.
type Prober interface {
	Probe(ctx context.Context, call *Call) ProbeResult
}
