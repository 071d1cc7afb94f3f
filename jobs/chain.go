package jobs

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
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
}

// extendChain lets a settlement, requested at now, claim the effect that follows, unless the chain
// has reached its limits.
func (a attempt) extendChain(ctx context.Context, now time.Time, s *inbox.Settlement) {
	chain := a.wakeUp.chain
	if chain == nil {
		return
	}
	s.NewJob = chain.length > 0
	s.Chain, s.Of = 0, a.claim
	if chain.length+1 < longestChain && now.Sub(chain.began) < chainFor && ctx.Err() == nil {
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
