package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// parentAgain is how long an effect waits while another call may already have done it.
const parentAgain = 5 * time.Second

// checkParent keeps a call that resumes an earlier one from repeating what that one has done or may have done. It skips
// an effect that may have happened itself.
func (a attempt) checkParent(ctx context.Context, tx pgx.Tx) (*inbox.Settlement, error) {
	if a.claim.Event.Parent.IsZero() || !a.claim.UnknownSince.IsZero() || a.claim.Item > 0 {
		return nil, nil
	}
	parent, err := a.store.ParentEffect(ctx, tx, a.claim)
	if err != nil {
		return nil, err
	}
	s := ending(a.claim)
	switch parent.State {
	case inbox.ParentDone:
		s.State, s.Reason, s.DuplicateOf = inbox.EffectDuplicate, inbox.ReasonParentDone, parent.Effect
	case inbox.ParentPartial:
		s.State, s.Outcome, s.Reason = inbox.EffectDead, inbox.AttemptDead, inbox.ReasonParentPartial
	case inbox.ParentGone:
		if a.claim.Trigger == inbox.TriggerManual { // an operator has decided to have it done
			return nil, nil
		}
		s.State, s.Reason = inbox.EffectIndeterminate, inbox.ReasonParentGone
	case inbox.ParentOpen:
		s = putBack(a.claim, inbox.ReasonParentOpen, a.jittered(parentAgain))
	default:
		return nil, nil
	}
	return &s, nil
}
