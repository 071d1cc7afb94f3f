package providers

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// AnswerKind says which of the provider's answers is wanted.
type AnswerKind string

// The answers a provider may dictate.
const (
	// Accepted acknowledges a delivery, after its commit.
	Accepted AnswerKind = "accepted"
	// Refused answers every failure of verification, uniformly.
	Refused AnswerKind = "refused"
)

// Answer gives the provider's answer to a delivery. event is our id of the
// (first) event and status what became of it; a refusal has neither.
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
