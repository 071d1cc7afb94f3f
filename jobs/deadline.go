package jobs

import (
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// pastDeadline settles an effect whose retry policy allows no attempt to begin any
// more: it is dead, and no attempt is counted. elapsed is the time since the claim
// was asked for. It is nil for any other effect, and for a list that was expanded
// before: each of its items has the deadline, and the list ends as they do.
func (c *Client) pastDeadline(claim *inbox.Claim, elapsed time.Duration) *inbox.Settlement {
	known, _ := c.store.Route(claim.RouteID)
	if !known.Retry.Over(claim.StartedAt.Sub(claim.Since) + elapsed) {
		return nil
	}
	if lists(claim, c.cfg.Routes[claim.RouteID]) && claim.Rendered != nil {
		return nil
	}
	s := ending(claim)
	s.State, s.Reason = inbox.EffectDead, inbox.ReasonDeadline
	return &s
}

// park puts back a claim that its target's limits turned away. It is woken at its
// deadline at the latest, to be dead when its time is over and not when the target
// may have room.
func (c *Client) park(claim *inbox.Claim, reason inbox.Reason, wait, elapsed time.Duration) inbox.Settlement {
	known, _ := c.store.Route(claim.RouteID)
	return putBack(claim, reason, known.Retry.Within(claim.StartedAt.Sub(claim.Since)+elapsed, wait))
}
