package jobs

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
)

// checkRecipient settles an effect whose message goes to a suppressed address: it is skipped. It is asked with the bytes that are
// about to be sent, so that an address that was suppressed after they were rendered is skipped too. Where the answer is not
// known, nothing is sent and no attempt is spent. nil lets the effect be sent.
func (a attempt) checkRecipient(ctx context.Context, rendered []byte) *inbox.Settlement {
	if a.route.Suppressed == nil {
		return nil
	}
	suppressed, err := a.route.Suppressed(ctx, rendered)
	switch {
	case errors.Is(err, seal.ErrLost):
		a.log.WarnContext(ctx, "a message waits: suppressed addresses cannot be looked up without the sealing key of their secret",
			"effect", a.claim.Effect.String(), "error", clean(err.Error()))
		s := putBack(a.claim, inbox.ReasonKeyMissing, a.jittered(longPause))
		return &s
	case err != nil:
		a.log.WarnContext(ctx, "looking for a suppressed address", "effect", a.claim.Effect.String(), "error", clean(err.Error()))
		s := putBack(a.claim, reasons.Unavailable, a.faultPause(ctx))
		return &s
	case !suppressed:
		return nil
	}
	s := ending(a.claim)
	s.State, s.Outcome, s.Reason = inbox.EffectSkipped, inbox.AttemptSkipped, inbox.ReasonSuppressed
	return &s
}
