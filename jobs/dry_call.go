package jobs

import (
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs/effect"
)

// DryCall gives what a target is asked about a claim's event: what an attempt under today's configuration would send, with
// the question's id wherever the idempotency key would stand. What was stored of the claim is set aside, and its key is
// used nowhere. The call is nil if no attempt would be made; the preview says why.
func (p *Previewer) DryCall(claim *inbox.Claim, id string) (*effect.DryCall, Preview) {
	asked := *claim
	asked.Key, asked.KeyHash, asked.Rendered, asked.UnknownSince = id, nil, nil, time.Time{}
	out := p.Preview(&asked)
	if !out.Known || out.State != "" || out.Items > 1 {
		return nil, out
	}
	event := out.Route.call(&asked).Event
	event.ContentType = out.Request.Headers.Get("Content-Type")
	return &effect.DryCall{ID: id, Event: event, Route: out.Route.Name, Today: out.Request}, out
}
