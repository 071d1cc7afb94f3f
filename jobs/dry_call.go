package jobs

import (
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs/effect"
)

// DryCall returns what to ask a target about a claim's event: the request that an attempt under today's configuration
// would send, with the question's id in place of the idempotency key. It ignores what was stored for the claim and does
// not use the claim's key. It returns a nil call if no attempt would be made; the preview says why.
func (p *Previewer) DryCall(claim *inbox.Claim, id string) (*effect.DryCall, Preview) {
	asked := *claim
	asked.Key, asked.KeyHash, asked.Rendered, asked.UnknownSince = id, nil, nil, time.Time{}
	out := p.Preview(&asked)
	if !out.Known || out.State != "" || out.Items > 1 || out.Unfetched {
		return nil, out
	}
	event := out.Route.call(&asked).Event
	event.ContentType = out.Request.Headers.Get("Content-Type")
	return &effect.DryCall{ID: id, Event: event, Route: out.Route.Name, Today: out.Request}, out
}
