package providers

import "slices"

// provedByDocumentation means that the rules were only read, and no source outside Oncegate confirmed them.
const provedByDocumentation = "documentation"

// proofs lists the values of proved_by, the strongest first.
var proofs = []string{"vendor", "library", "capture", "third-party", provedByDocumentation}

// Proofs returns the values of proved_by, the strongest first.
func Proofs() []string { return slices.Clone(proofs) }

// ProofText describes a proof in a few words.
func ProofText(by string) string {
	switch by {
	case "vendor":
		return "vendor: a signed request that the sender published"
	case "library":
		return "library: the sender's own library, or the one that it names"
	case "capture":
		return "capture: a request that the sender really sent"
	case "third-party":
		return "third-party: an independent implementation"
	}
	return "documentation alone, so the entry is unproved"
}

// provedBy refuses an unknown proof. A custom provider may leave it out.
func (d *specReader) provedBy(path, value string) {
	if value != "" {
		d.choice(path, value, proofs, nil)
	}
}

// WayProof is the proof of one method with which a provider authenticates its requests.
type WayProof struct {
	// Mode is the name of the mode, or [DefaultMode] for the provider's own verify.
	Mode string
	// By is one of [Proofs]. It is documentation if the spec leaves it out.
	By string
}

// ProofOf returns the proof of the provider's default mode, followed by the proofs of its other modes.
func (p *Provider) ProofOf() []WayProof {
	out := []WayProof{{DefaultMode, provenBy(p.spec.ProvedBy)}}
	for i := range p.spec.Modes {
		out = append(out, WayProof{p.spec.Modes[i].Name, provenBy(p.spec.Modes[i].ProvedBy)})
	}
	return out
}

func provenBy(value string) string {
	if value == "" {
		return provedByDocumentation
	}
	return value
}

// UnconfirmedModes returns the names of the modes, or [DefaultMode], whose rules no source outside
// Oncegate confirmed.
func (p *Provider) UnconfirmedModes() []string {
	var out []string
	for _, way := range p.ProofOf() {
		if way.By == provedByDocumentation {
			out = append(out, way.Mode)
		}
	}
	return out
}
