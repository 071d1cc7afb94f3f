package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// check decides whether there is to be an attempt: whether this process can open what is
// to be sent, whether the target still knows the key of an earlier attempt, what the
// route's condition says, and who owns the effect's key. tx is nil if the claim is
// committed and another transaction acts. A settlement says that there is no attempt;
// held is false if the claim is no longer ours.
func (a attempt) check(ctx context.Context, tx pgx.Tx) (s *inbox.Settlement, held bool, err error) {
	if s := a.checkSealingKey(ctx); s != nil {
		return s, true, nil
	}
	if a.route.stored.Forgotten(a.claim.UnknownSince, a.claim.StartedAt) {
		s := ending(a.claim)
		s.State, s.Reason = inbox.EffectIndeterminate, inbox.ReasonKeyWindow
		return &s, true, nil
	}
	if s, err := a.checkTarget(ctx); s != nil || err != nil {
		return s, true, err
	}
	if s, err := a.checkParent(ctx, tx); s != nil || err != nil {
		return s, true, err
	}
	// An attempt that may have happened cannot be made undone by a condition.
	if s := a.checkCondition(ctx); s != nil {
		return s, true, nil
	}
	// Before the key is asked for: an effect that never happens owns none.
	if s := a.checkDeadline(0); s != nil {
		return s, true, nil
	}
	hash, s := a.effectKey(ctx)
	if hash == nil {
		return s, true, nil
	}
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
			s, err := a.adoptOwner(ctx, hash, owner.Effect)
			return s, true, err
		}
		s := ending(a.claim)
		s.State, s.DuplicateOf = inbox.EffectDuplicate, owner.Effect
		return &s, true, nil
	}
	return nil, true, nil
}

// How long an effect that may have happened at another target is left to the processes
// that have that one, and how often it is looked at meanwhile: a deploy that changes a
// target takes about so long. It is left to nobody where all live processes have one
// configuration.
const (
	otherTargetFor   = 2 * time.Minute
	otherTargetEvery = 5 * time.Second
)

// checkTarget keeps an effect from a second target: one that may have happened at the
// target that another configuration has for the route is left to a process with that
// configuration, and then to a person.
func (a attempt) checkTarget(ctx context.Context) (*inbox.Settlement, error) {
	target, err := a.store.Elsewhere(ctx, a.claim)
	if err != nil || target == "" {
		return nil, err
	}
	s := a.leaveElsewhere(ctx, target)
	return &s, nil
}

// leaveElsewhere leaves an effect that may have happened at a place that this process has not.
func (a attempt) leaveElsewhere(ctx context.Context, place string) inbox.Settlement {
	if !a.cfg.Peers.Alike() && a.claim.StartedAt.Sub(a.claim.UnknownSince) < otherTargetFor {
		return putBack(a.claim, inbox.ReasonElsewhere, a.jittered(otherTargetEvery))
	}
	s := ending(a.claim)
	s.State, s.Reason = inbox.EffectIndeterminate, inbox.ReasonElsewhere
	a.log.WarnContext(ctx, "an effect may have happened at another target than this process has for its route: it is not sent, and waits for a person",
		"effect", a.claim.Effect.String(), "target", clean(place))
	return s
}

// effectKey gives the key that an effect has to ask for before this attempt, or how it
// ends if its recipe fails; neither if it asks for none.
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
	s.State, s.Outcome, s.Reason = inbox.EffectSkipped, inbox.AttemptSkipped, inbox.ReasonCondition
	return &s
}

// expressionFailure settles an effect for which an expression cannot be evaluated. What
// is told names the expression, which is configuration; the error is one of a
// closed set and quotes nothing of the event.
func (a attempt) expressionFailure(ctx context.Context, expression string, err error) *inbox.Settlement {
	text := clean(expression + ": " + err.Error())
	a.log.LogAttrs(ctx, slog.LevelWarn, "expression failed", slog.String("source", a.route.Source), slog.String("route", a.route.Name),
		slog.String("effect", a.claim.Effect.String()), slog.String("error", text))
	s := ending(a.claim)
	s.State, s.Outcome, s.Reason, s.Excerpt = inbox.EffectDead, inbox.AttemptDead, reasons.Mapping, text
	return &s
}
