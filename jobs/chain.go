package jobs

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// A worker that has ended one effect of a stream carries out the next, for at most longestChain
// effects or chainFor. After that it leaves the worker to other effects.
const (
	longestChain = 100
	chainFor     = 10 * time.Second
)

// chain is what one wake-up carries out in one stream, one effect after the other. A nil chain
// belongs to an effect without a stream.
type chain struct {
	began  time.Time
	length int

	// next was claimed by the settlement of the effect before it. That settlement was requested at
	// asked, so the lease of next did not start before asked.
	next  *inbox.Claim
	asked time.Time

	// turnedAway: the last effect was put off because there was no room for it.
	turnedAway bool
}

// extendChain lets a settlement, requested at now, claim the effect that follows, unless the chain
// has reached its limits.
func (a attempt) extendChain(ctx context.Context, now time.Time, s *inbox.Settlement) {
	chain := a.wakeUp.chain
	if chain == nil {
		return
	}
	chain.turnedAway = s.Reason == reasons.Saturated || s.Reason == reasons.Rate || s.Reason == reasons.LockTimeout
	s.NewJob = chain.length > 0
	s.Chain, s.Of = 0, a.claim
	if chain.length+1 < longestChain && now.Sub(chain.began) < chainFor && ctx.Err() == nil && !a.store.Paused(a.claim.RouteID) {
		s.Chain = a.wakeUp.jobID
	}
}

// advance turns the attempt into one at the effect that follows. It returns false if there is none.
func (h *chain) advance(a *attempt) bool {
	if h == nil || h.next == nil {
		return false
	}
	a.claim, a.begun = h.next, h.asked
	a.wakeUp.effect = h.next.Effect
	h.next = nil
	h.length++
	return true
}

// The third parameter is the priority of live deliveries: a replay's job keeps its own, because it must yield to them.
const raisePriority = `UPDATE river_job SET priority = $2 WHERE id = $1 AND priority = $3`

// keepPlace lets the next run of a wake-up come before others as soon as its pause ends, if it ended with an effect of a stream for
// which its target or its stream had no room. River orders jobs by the time for which they are scheduled, and a snooze changes that
// time. Without a better priority the effect would run after everything that was received before the end of its pause, and so
// would all later effects of its key.
//
// Each key has at most one such wake-up, so few jobs have this priority. If the statement fails, the effect loses its place and
// nothing else happens. Call keepPlace after the slot at the target is free, because the statement would keep others waiting.
func (c *Client) keepPlace(ctx context.Context, w wakeUp) {
	if w.chain == nil || !w.chain.turnedAway || w.priority != livePriority {
		return
	}
	if _, err := c.cfg.Pool.Exec(ctx, raisePriority, w.jobID, placePriority, livePriority); err != nil && ctx.Err() == nil {
		c.log.DebugContext(ctx, "keeping the place of an effect", "effect", w.effect.String(), "error", clean(err.Error()))
	}
}
