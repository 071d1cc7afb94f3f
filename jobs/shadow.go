package jobs

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// shadowUnfetched says why nothing is known of a request that a live attempt would fetch for.
const shadowUnfetched = "fetch: a shadow effect fetches nothing, so that its condition and its request were not evaluated"

// rehearse ends an effect in shadow mode: it does what an attempt does until there is a request, and then settles the effect as
// skipped. It reaches neither the target nor a server that the route fetches from, and takes no place at the target's limits. It
// asks for the effect's key like an attempt, so that a later event with the same key is recognised as a duplicate, also after the
// source has left shadow mode.
func (a attempt) rehearse(ctx context.Context) error {
	if !a.route.configured { // the store knows the route, this client does not
		return a.putBack(ctx, reasons.Route, longPause)
	}
	if s := a.checkContent(ctx); s != nil {
		return a.settle(ctx, *s)
	}
	seen := a.previewer.Preview(a.claim)
	if seen.State == inbox.EffectSkipped {
		return a.settle(ctx, *a.skipped(seen.Reason))
	}
	s := a.skipped(reasons.Shadow)
	switch {
	case seen.Unfetched:
		s.Excerpt = shadowUnfetched
	case seen.State != "":
		s.Reason, s.Failure, s.Excerpt = reasons.ShadowFailed, seen.Reason, seen.Said
	default:
		other, held, err := a.ownRehearsed(ctx, &seen)
		switch {
		case err != nil:
			a.log.WarnContext(ctx, "asking for the key of a shadow effect", "effect", a.claim.Effect.String(), "error", clean(err.Error()))
			return a.putBack(ctx, reasons.Unavailable, a.faultPause(ctx))
		case !held:
			return nil
		case other != nil:
			s = other
		}
	}
	return a.settle(ctx, *s)
}

// ownRehearsed asks for the key of a shadow effect that would be sent. A list of several items has a key for each, and its
// items are not written in shadow mode.
func (a attempt) ownRehearsed(ctx context.Context, seen *Preview) (s *inbox.Settlement, held bool, err error) {
	switch {
	case a.route.List == nil:
		hash, s := a.effectKey(ctx)
		if hash == nil {
			return s, true, nil
		}
		return a.ownKey(ctx, nil, hash)
	case len(seen.List) == 1:
		s, held := a.askForItem(ctx, a.route.List.meaning(seen.List[0]))
		return s, held, nil
	}
	return nil, true, nil
}

// rehearseUnclaimed claims a shadow effect of an unordered route inside the database, and ends it. The claim is committed
// first, because no transaction acts.
func (a attempt) rehearseUnclaimed(ctx context.Context, standing inbox.Standing) error {
	claim, at, err := a.claimFirst(ctx, standing)
	switch {
	case errors.Is(err, inbox.ErrNoConnection):
		return a.postpone(ctx, standing, reasons.Saturated, a.jittered(lockPause))
	case err != nil:
		return a.retryLater(ctx, "claiming an effect", err)
	case claim == nil:
		return awaitHolder(at)
	}
	a.claim, a.committed = claim, true
	if !claim.Shadow { // an operator has it carried out since the standing was read
		return a.putBack(ctx, reasons.Unavailable, 0)
	}
	return a.rehearse(ctx)
}

// skipped settles an effect for which there is nothing to do.
func (a attempt) skipped(reason reasons.Reason) *inbox.Settlement {
	s := ending(a.claim)
	s.State, s.Outcome, s.Reason = inbox.EffectSkipped, inbox.AttemptSkipped, reason
	return &s
}
