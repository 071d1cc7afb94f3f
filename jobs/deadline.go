package jobs

import (
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// checkDeadline settles an effect whose retry policy allows no further attempt to begin.
// The effect becomes a dead letter, and no attempt is counted. elapsed is the time since
// the claim was requested. checkDeadline returns nil for any other effect, and for a list
// that was expanded before: each of its items has the deadline, and the list ends when
// they do.
func (a attempt) checkDeadline(elapsed time.Duration) *inbox.Settlement {
	if !a.route.stored.Retry.Over(a.claim.StartedAt.Sub(a.claim.Since) + elapsed) {
		return nil
	}
	if a.route.expands(a.claim) && a.claim.Rendered != nil {
		return nil
	}
	s := ending(a.claim)
	s.State, s.Reason = inbox.EffectDead, reasons.Deadline
	return &s
}

// turnAway puts back a claim that its target's limits turned away. The effect is woken at its
// deadline at the latest, so that it becomes a dead letter on time even if the target has no room
// then.
func (a attempt) turnAway(reason reasons.Reason, wait time.Duration) inbox.Settlement {
	return putBack(a.claim, reason, a.route.stored.Retry.Within(a.claim.StartedAt.Sub(a.claim.Since)+a.elapsed(), wait))
}
