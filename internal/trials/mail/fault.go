package mail

import "slices"

// Stage is a point at which a mail server answers, or should.
type Stage string

// The stages of a conversation, in order. A server that does not offer STARTTLS never reaches StageTLS.
const (
	StageGreeting Stage = "greeting"
	StageHello    Stage = "hello"
	StageTLS      Stage = "starttls"
	StageMail     Stage = "mail"
	StageRcpt     Stage = "rcpt"
	StageData     Stage = "data"
	StageDot      Stage = "dot"
	StageQuit     Stage = "quit"
)

// Fault is what the server does at a stage of the first conversation. It behaves correctly in all later ones.
type Fault string

// The faults.
const (
	FaultLater   Fault = "451"      // not now
	FaultRefuse  Fault = "550"      // never
	FaultSilence Fault = "silence"  // no answer; the connection stays open
	FaultReset   Fault = "reset"    // a TCP reset in place of the answer
	FaultClose   Fault = "close"    // an orderly end in the middle of the answer
	FaultSlow    Fault = "slow"     // the right answer, byte by byte
	FaultTrickle Fault = "trickle"  // byte by byte, and no end of it
	FaultGarbage Fault = "garbage"  // bytes that are not an SMTP reply
	FaultTwice   Fault = "twice"    // the right answer, and the one of the next stage as well
	FaultStrip   Fault = "stripped" // STARTTLS is not offered
	FaultForeign Fault = "foreign"  // a certificate that the client does not trust
)

// Plan is one case: a separate mail server that misbehaves once.
type Plan struct {
	Stage Stage
	Fault Fault

	// Encrypted is whether the target requires STARTTLS, and logs in.
	Encrypted bool
}

// Name names the case, its target and its route.
func (p Plan) Name() string {
	name := string(p.Stage) + "-" + string(p.Fault)
	if p.Encrypted {
		name += "-tls"
	}
	return name
}

// Plans returns all cases: each fault at each stage without encryption, and the faults of STARTTLS where it is
// required.
func Plans() []Plan {
	var plans []Plan
	faults := []Fault{FaultLater, FaultRefuse, FaultSilence, FaultReset, FaultClose, FaultSlow, FaultTrickle, FaultGarbage, FaultTwice}
	for _, stage := range []Stage{StageGreeting, StageHello, StageMail, StageRcpt, StageData, StageDot, StageQuit} {
		for _, fault := range faults {
			plans = append(plans, Plan{Stage: stage, Fault: fault})
		}
	}
	plans = append(plans, Plan{Stage: StageHello, Fault: FaultStrip, Encrypted: true}, Plan{Stage: StageTLS, Fault: FaultForeign, Encrypted: true})
	for _, fault := range faults {
		plans = append(plans, Plan{Stage: StageTLS, Fault: fault, Encrypted: true}, Plan{Stage: StageDot, Fault: fault, Encrypted: true})
	}
	return slices.Clip(plans)
}
