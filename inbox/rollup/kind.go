package rollup

import (
	"fmt"
	"time"
)

// Kind is a kind of count.
type Kind uint8

// The kinds of a source come first, and then the kinds of a route. The last ones count acknowledgements of a source, or attempts of
// a route, by their duration.
const (
	// Recorded counts events that were new, with any admission.
	Recorded Kind = iota
	// Duplicates counts events that were recorded before.
	Duplicates
	// Conflicts counts events that were recorded before with another payload.
	Conflicts
	// Unusable counts the recorded events that are dead letters themselves, because they cannot be used or are
	// older than keys are kept.
	Unusable
	// Suspected counts the recorded events that seem to repeat another one under another id.
	Suspected
	// LabelErrors counts labels that an event should have and that could not be made from it.
	LabelErrors
	// Refused counts requests that were refused.
	Refused
	// Unavailable counts requests that were answered with 503.
	Unavailable
	// Done counts effects that happened.
	Done
	// Retried counts attempts after which another one follows.
	Retried
	// Dead counts effects that became dead letters.
	Dead
	// Indeterminate counts effects whose outcome became unknown.
	Indeterminate

	firstLatency
)

// kinds is how many kinds there are.
const kinds = int(firstLatency) + latencies

var kindNames = [firstLatency]string{
	Recorded: "recorded", Duplicates: "duplicate", Conflicts: "conflict", Unusable: "unusable", Suspected: "suspected", LabelErrors: "label_error",
	Refused: "refused", Unavailable: "unavailable", Done: "done", Retried: "retried", Dead: "dead", Indeterminate: "indeterminate",
}

// String returns the stored form of the kind. Stored: never change.
func (k Kind) String() string {
	switch {
	case k < firstLatency:
		return kindNames[k]
	case k == firstLatency+latencies-1:
		return "took_longer"
	case int(k) < kinds:
		return fmt.Sprintf("took_%dms", latencyBounds[k-firstLatency]/time.Millisecond)
	}
	return ""
}

// byName returns the kinds by their stored form.
func byName() map[string]Kind {
	out := make(map[string]Kind, kinds)
	for k := range Kind(kinds) {
		out[k.String()] = k
	}
	return out
}

// Names returns the stored forms of all kinds.
func Names() []string {
	out := make([]string, kinds)
	for k := range Kind(kinds) {
		out[k] = k.String()
	}
	return out
}
