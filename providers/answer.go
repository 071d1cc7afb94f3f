package providers

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// AnswerKind selects one of the provider's answers.
type AnswerKind string

// These are the answers that a provider may define.
const (
	// Accepted acknowledges a delivery after its commit.
	Accepted AnswerKind = "accepted"
	// Refused answers every failure of verification in the same way.
	Refused AnswerKind = "refused"
)

// Answer returns the provider's answer to a delivery. event is Oncegate's id of the (first) event,
// and status is what was done with the event. Both are empty for a refusal.
func (p *Provider) Answer(kind AnswerKind, event, status string) Reply {
	spec := &p.spec.Ack
	if kind == Refused {
		spec = &p.spec.Reject
	}
	reply := Reply{Status: spec.Status}
	values := strings.NewReplacer("{{event}}", event, "{{status}}", status)
	if !spec.Empty {
		reply.ContentType = spec.ContentType
		reply.Body = []byte(values.Replace(spec.Body))
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Headers)) {
		if reply.Header == nil {
			reply.Header = http.Header{}
		}
		reply.Header.Set(name, values.Replace(spec.Headers[name]))
	}
	return reply
}
