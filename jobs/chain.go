package jobs

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// A worker that has ended one effect of a stream goes on with the next, for so many
// effects or so long; after that it makes room for others.
const (
	longestChain = 100
	chainFor     = 10 * time.Second
)

// chain is what one wake-up carries out of one stream, one effect after the other. A nil
// chain is that of an effect without a stream, and ends with it.
type chain struct {
	began  time.Time
	length int

	// next was claimed when the one before it was settled; the settlement was asked
	// for at asked, so that the lease is no older.
	next  *inbox.Claim
	asked time.Time
}

// extendChain has a settlement, asked for at now, claim the effect that follows, if the
// worker may go on.
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

// advance makes of the attempt one at the effect that follows; false if there is none.
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
