package jobs

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
)

// checkRecipient skips an effect whose message goes to a suppressed address. It checks the bytes that are about to be
// sent, so that it also skips an address that was suppressed after they were rendered. If the check fails, nothing is
// sent and no attempt is counted. It returns nil if the effect may be sent.
func (a attempt) checkRecipient(ctx context.Context, rendered []byte) *inbox.Settlement {
	if a.route.Suppressed == nil {
		return nil
	}
	suppressed, err := a.route.Suppressed(ctx, rendered)
	switch {
	case errors.Is(err, seal.ErrLost):
		a.log.WarnContext(ctx, "a message waits: suppressed addresses cannot be looked up without the sealing key of their secret",
			"effect", a.claim.Effect.String(), "error", clean(err.Error()))
		s := putBack(a.claim, reasons.KeyMissing, a.jittered(longPause))
		return &s
	case err != nil:
		a.log.WarnContext(ctx, "looking for a suppressed address", "effect", a.claim.Effect.String(), "error", clean(err.Error()))
		s := putBack(a.claim, reasons.Unavailable, a.faultPause(ctx))
		return &s
	case !suppressed:
		return nil
	}
	return a.skipped(reasons.Suppressed)
}
