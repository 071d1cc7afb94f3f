package jobs

import (
	"cmp"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs/effect"
)

// input returns a claim's event as expressions see it.
func (r *Route) input(claim *inbox.Claim) *expression.Input {
	e := &claim.Event
	return &expression.Input{
		Event: expression.Event{
			UUID: e.ID.String(), ID: e.EventID, Type: e.Type, Source: r.Source, Provider: r.Provider,
			OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt,
		},
		Body: r.document(e.Body), Headers: HeaderTexts(e.Headers), Fetched: claim.Fetched,
	}
}

// document returns the JSON document that a body carries.
func (r *Route) document(body []byte) []byte {
	if r.Document == nil {
		return body
	}
	return r.Document(body)
}

// requestInput returns a claim's event as seen by the expressions that make a request.
func (r *Route) requestInput(claim *inbox.Claim) *expression.Input {
	in := r.input(claim)
	in.Key = claim.Key
	return in
}

// keyInput returns a claim's event as seen by the recipes of keys. A renamed source makes the same
// keys.
func (r *Route) keyInput(claim *inbox.Claim) *expression.Input {
	in := r.input(claim)
	in.Event.Source = cmp.Or(r.KeySource, r.Source)
	return in
}

// RequestInput returns a call's event as seen by the expressions in an address. If a header has
// several values, the first counts.
func RequestInput(call *effect.Call) *expression.Input {
	in := Input(call)
	in.Headers = make(map[string]string, len(call.Event.Headers))
	for name, values := range call.Event.Headers {
		if len(values) > 0 {
			in.Headers[name] = values[0]
		}
	}
	return in
}

// Input returns a call's event for kinds whose parameters are expressions. It has no headers.
func Input(call *effect.Call) *expression.Input {
	e := &call.Event
	return &expression.Input{
		Event: expression.Event{
			UUID: e.ID, ID: e.EventID, Type: e.Type, Source: e.Source, Provider: e.Provider, OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt,
		},
		Body: e.JSON(), ContentType: e.ContentType, Key: call.Key, Fetched: e.Fetched,
	}
}
