package effect

import (
	"encoding/json"
	"sync"
)

// payload is a document as a JSON value, for all calls that share it.
type payload struct {
	once  sync.Once
	value any
}

// Payload returns the event's document ([Event.JSON]) decoded, or nil if it is not JSON. The first call
// decodes it. Copies that are made of a call afterwards share the value, so that a list of 50,000
// recipients is not parsed 50,000 times. Callers must not change it.
func (c *Call) Payload() any {
	if c.payload == nil {
		c.payload = new(payload)
	}
	return c.payload.decode(c.Event.JSON())
}

// FetchedPayload is [Call.Payload] for the answer of the route's fetch. It returns nil without one.
func (c *Call) FetchedPayload() any {
	if c.answer == nil {
		c.answer = new(payload)
	}
	return c.answer.decode(c.Event.Fetched)
}

func (p *payload) decode(document []byte) any {
	p.once.Do(func() {
		if json.Unmarshal(document, &p.value) != nil {
			p.value = nil
		}
	})
	return p.value
}
