package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// check decides whether to make an attempt: whether this process can open the sealed event, whether
// the target still remembers the key of an earlier attempt, what the route's condition says, and
// which effect owns the key. tx is nil if the claim is committed and another transaction acts. A
// non-nil settlement means that no attempt is made. held is false if this process has lost the
// claim.
func (a attempt) check(ctx context.Context, tx pgx.Tx) (s *inbox.Settlement, held bool, err error) {
	if s := a.checkContent(ctx); s != nil {
		return s, true, nil
	}
	if a.route.stored.Forgotten(a.claim.UnknownSince, a.claim.StartedAt) {
		s := ending(a.claim)
		s.State, s.Reason = inbox.EffectIndeterminate, reasons.KeyWindow
		return &s, true, nil
	}
	if s, err := a.checkTarget(ctx); s != nil || err != nil {
		return s, true, err
	}
	if s, err := a.checkCancelled(ctx); s != nil || err != nil {
		return s, true, err
	}
	if s, err := a.checkParent(ctx, tx); s != nil || err != nil {
		return s, true, err
	}
	if a.route.Fetch != nil {
		// Nothing is fetched for an effect that may not be attempted any more. In a transaction, the fetch was made
		// before it began.
		if s := a.checkDeadline(0); s != nil {
			return s, true, nil
		}
		if tx == nil {
			if s, held := a.fetchFirst(ctx); s != nil || !held {
				return s, held, nil
			}
		}
	}
	if s := a.checkCondition(ctx); s != nil {
		return s, true, nil
	}
	// The deadline comes before the key because an effect that never happens must not own a key.
	if s := a.checkDeadline(0); s != nil {
		return s, true, nil
	}
	hash, s := a.effectKey(ctx)
	if hash == nil {
		return s, true, nil
	}
	return a.ownKey(ctx, tx, hash)
}

// ownKey asks for the effect's key, in the transaction that acts or, if tx is nil, in its own. It returns what
// check returns: a settlement if the key belongs to another effect.
func (a attempt) ownKey(ctx context.Context, tx pgx.Tx, hash []byte) (s *inbox.Settlement, held bool, err error) {
	var owner inbox.Owner
	if tx != nil {
		owner, err = a.store.OwnTx(ctx, tx, a.claim, hash)
	} else {
		owner, err = a.store.Own(context.WithoutCancel(ctx), a.claim, hash)
	}
	switch none := (inbox.ID{}); {
	case err != nil:
		return nil, false, err
	case !owner.Held:
		return nil, false, nil
	case owner.Effect != none && owner.Effect != a.claim.Effect:
		if a.route.List != nil && a.claim.Item == 0 {
			s, err := a.besideOwner(ctx, hash, owner.Effect)
			return s, true, err
		}
		s := ending(a.claim)
		s.State, s.DuplicateOf = inbox.EffectDuplicate, owner.Effect
		return &s, true, nil
	}
	return nil, true, nil
}

// otherTargetFor is how long an effect that may have happened at another target is left to the
// processes that have that target. A deploy that changes a target takes about that long.
// otherTargetEvery is how often the effect is checked meanwhile. If all live processes have the
// same configuration, the effect does not wait.
const (
	otherTargetFor   = 2 * time.Minute
	otherTargetEvery = 5 * time.Second
)

// checkTarget keeps an effect from reaching a second target. If the effect may have happened at the
// target that another configuration has for the route, it is left to a process with that
// configuration, and later to an operator.
func (a attempt) checkTarget(ctx context.Context) (*inbox.Settlement, error) {
	target, err := a.store.Elsewhere(ctx, a.claim)
	if err != nil || target == "" {
		return nil, err
	}
	s := a.leaveElsewhere(ctx, target)
	return &s, nil
}

// leaveElsewhere puts off an effect that may have happened at a place that this process does not
// have. When no other process can have that place, the effect becomes indeterminate.
func (a attempt) leaveElsewhere(ctx context.Context, place string) inbox.Settlement {
	if !a.cfg.Peers.Alike() && a.claim.StartedAt.Sub(a.claim.UnknownSince) < otherTargetFor {
		return putBack(a.claim, reasons.Elsewhere, a.jittered(otherTargetEvery))
	}
	s := ending(a.claim)
	s.State, s.Reason = inbox.EffectIndeterminate, reasons.Elsewhere
	a.log.WarnContext(ctx, "an effect may have happened at another target than this process has for its route: it is not sent, and waits for a person",
		"effect", a.claim.Effect.String(), "target", clean(place))
	return s
}

// effectKey returns the key that an effect must claim before this attempt, or how the effect ends
// if its recipe fails. Both are nil if the effect needs no key.
func (a attempt) effectKey(ctx context.Context) (hash []byte, s *inbox.Settlement) {
	if !a.route.asksForKey(a.claim) {
		return nil, nil
	}
	if a.claim.Item > 0 {
		return a.claim.KeyHash, nil // it was made when the item was written
	}
	hash, err := a.route.Key.Hash(a.route.keyInput(a.claim))
	if err != nil {
		return nil, a.expressionFailure(ctx, "key", err)
	}
	a.route.remakeKey(a.claim, hash, "")
	return hash, nil
}

// checkCondition settles an effect whose route's condition is false or fails.
func (a attempt) checkCondition(ctx context.Context) *inbox.Settlement {
	wanted, err := a.route.wants(a.claim)
	if err != nil {
		return a.expressionFailure(ctx, "when: "+a.route.When.String(), err)
	}
	if wanted {
		return nil
	}
	s := ending(a.claim)
	if s.State, s.Reason = a.route.unwanted(a.claim), reasons.Condition; s.State == inbox.EffectSkipped {
		s.Outcome = inbox.AttemptSkipped
	}
	return &s
}

// expressionFailure settles an effect for which an expression cannot be evaluated. The text names
// the expression, which is configuration. The error is one of a closed set and quotes nothing of
// the event.
func (a attempt) expressionFailure(ctx context.Context, expression string, err error) *inbox.Settlement {
	text := clean(expression + ": " + err.Error())
	a.log.LogAttrs(ctx, slog.LevelWarn, "expression failed", slog.String("source", a.route.Source), slog.String("route", a.route.Name),
		slog.String("effect", a.claim.Effect.String()), slog.String("error", text))
	s := ending(a.claim)
	s.State, s.Outcome, s.Reason, s.Excerpt = inbox.EffectDead, inbox.AttemptDead, reasons.Mapping, text
	return &s
}
