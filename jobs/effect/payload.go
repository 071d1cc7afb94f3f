package effect

import (
	"encoding/json"
	"sync"
)

// payload is an event's body as JSON, for all calls that share it.
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
	c.payload.once.Do(func() {
		if json.Unmarshal(c.Event.JSON(), &c.payload.value) != nil {
			c.payload.value = nil
		}
	})
	return c.payload.value
}
