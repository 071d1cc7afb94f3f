package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// parentAgain is how long an effect waits while another call may already have done it.
const parentAgain = 5 * time.Second

// checkParent keeps a call that resumes an earlier one from repeating what that one has done or may have done. An effect
// whose earlier attempt was lost is checked too, because the worker may have died before it checked. If that attempt did
// send, its check had found that the earlier call did not happen. Nothing can have sent the earlier call since, because
// replays and decisions refuse a call that another one follows.
func (a attempt) checkParent(ctx context.Context, tx pgx.Tx) (*inbox.Settlement, error) {
	if a.claim.Event.Parent.IsZero() || a.claim.Item > 0 {
		return nil, nil
	}
	parent, err := a.store.ParentEffect(ctx, tx, a.claim)
	if err != nil {
		return nil, err
	}
	s := ending(a.claim)
	switch parent.State {
	case inbox.ParentDone:
		s.State, s.Reason, s.DuplicateOf = inbox.EffectDuplicate, reasons.ParentDone, parent.Effect
	case inbox.ParentPartial:
		if a.route.expands(a.claim) { // resumeList leaves out the items that have happened
			return nil, nil
		}
		s = anotherList(a.claim)
	case inbox.ParentGone:
		if a.claim.Trigger == inbox.TriggerManual { // an operator has decided to have it done
			return nil, nil
		}
		s.State, s.Reason = inbox.EffectIndeterminate, reasons.ParentGone
	case inbox.ParentOpen:
		s = putBack(a.claim, reasons.ParentOpen, a.jittered(parentAgain))
	default:
		return nil, nil
	}
	return &s, nil
}

// anotherList ends an effect whose earlier call has carried out a part of a list that is not the effect's.
func anotherList(claim *inbox.Claim) inbox.Settlement {
	s := ending(claim)
	s.State, s.Outcome, s.Reason = inbox.EffectDead, inbox.AttemptDead, reasons.ParentPartial
	return s
}

// resumeList returns which of the items earlier calls have carried out. It settles the effect if these are not among its items, because
// the configuration makes another list today, or if they are all of them.
func (a attempt) resumeList(ctx context.Context, items []listItem) (inbox.ItemsDone, *inbox.Settlement, error) {
	done, err := a.store.ItemsDone(ctx, a.claim)
	if err != nil || len(done) == 0 {
		return nil, nil, err
	}
	found := 0
	var by inbox.ID
	for _, item := range items {
		if effect := done.By(item.meaning); !effect.IsZero() {
			found++
			by = effect
		}
	}
	switch {
	case found < len(done):
		s := anotherList(a.claim)
		return nil, &s, nil
	case len(items) == 1:
		s := ending(a.claim)
		s.State, s.Reason, s.DuplicateOf = inbox.EffectDuplicate, reasons.ParentDone, by
		return nil, &s, nil
	}
	return done, nil, nil
}
