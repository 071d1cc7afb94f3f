package rig

import "fmt"

// Kind says which part of a promise was broken. Each campaign names its own kinds.
type Kind string

// Violation is one way in which a promise was broken.
type Violation struct {
	Kind Kind `json:"invariant"`

	// Event is the sender's id of the event, or empty if the violation is about no single one.
	Event string `json:"event,omitempty"`

	Detail string `json:"detail"`
}

// String is the violation in one line.
func (v Violation) String() string {
	if v.Event == "" {
		return string(v.Kind) + ": " + v.Detail
	}
	return string(v.Kind) + ": " + v.Event + " " + v.Detail
}

// CountKind says how many violations are of a kind.
func CountKind(violations []Violation, kind Kind) int {
	n := 0
	for _, v := range violations {
		if v.Kind == kind {
			n++
		}
	}
	return n
}

// listLimit is how many violations a campaign prints.
const listLimit = 20

// List formats the first violations, a line each, and says how many it leaves out.
func List[V any](violations []V) []string {
	var lines []string
	for i, v := range violations {
		if i == listLimit {
			lines = append(lines, fmt.Sprintf("and %d more", len(violations)-i))
			break
		}
		lines = append(lines, fmt.Sprint(v))
	}
	return lines
}

// NewViolation is a violation with a formatted detail.
func NewViolation(kind Kind, format string, args ...any) Violation {
	return Violation{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}
