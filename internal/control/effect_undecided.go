package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
)

// DecideEffectRequest decides about an effect that is held for an operator because its place in its sequence is unknown,
// taken, or a time too far ahead.
type DecideEffectRequest struct {
	Match
	Explained `required:"reason"`

	// ID identifies the effect.
	ID inbox.ID `json:"id"`
}

// DecidedEffects are the effects that are no longer held for an operator.
type DecidedEffects struct {
	// Ended is how many effects are no longer held.
	Ended int `json:"ended"`

	// As is the decision: apply or skip.
	As decide.UndecidedEnd `json:"as"`

	Effects []inbox.ID `json:"effects"`
}

// ApplyEffect lets an effect run that is held for an operator.
var ApplyEffect = Operation[DecideEffectRequest, DecidedEffects]{
	ID: "apply_effect", Method: "POST", Path: "/effects/{id}/apply", Scope: Operate,
	Summary: "Let an effect run that is held for a person: in its turn if its number is taken, else as soon as it can.",
	Why:     "why is it right to let it run?", Confirm: "apply",
	Do: func(ctx context.Context, s *Service, access Access, r DecideEffectRequest) (DecidedEffects, error) {
		return s.decideEffect(ctx, access, r, decide.UndecidedApply)
	},
}

// SkipEffect settles an effect that is held for an operator as skipped.
var SkipEffect = Operation[DecideEffectRequest, DecidedEffects]{
	ID: "skip_effect", Method: "POST", Path: "/effects/{id}/skip", Scope: Operate,
	Summary: "Skip an effect that is held for a person: it never happens.",
	Why:     "why may the stream continue without it?", Confirm: "skip",
	Do: func(ctx context.Context, s *Service, access Access, r DecideEffectRequest) (DecidedEffects, error) {
		return s.decideEffect(ctx, access, r, decide.UndecidedSkip)
	},
}

func (s *Service) decideEffect(ctx context.Context, access Access, r DecideEffectRequest, as decide.UndecidedEnd) (out DecidedEffects, err error) {
	if err := s.lister.CheckTenant(ctx, access.Tenant, r.ID); err != nil {
		return out, err
	}
	effect, err := s.lister.Effect(ctx, r.ID)
	if err != nil {
		return out, err
	}
	if err := r.check(effect.Tag()); err != nil {
		return out, err
	}
	out, err = s.endUndecided(ctx, access, r.Explained, as, map[inbox.ID]int{r.ID: effect.Revision}, []inbox.ID{r.ID})
	return out, r.changed(err)
}

func (s *Service) endUndecided(ctx context.Context, access Access, why Explained, as decide.UndecidedEnd, revisions map[inbox.ID]int, ids []inbox.ID) (DecidedEffects, error) {
	n, err := decide.New(s.store).EndUndecided(ctx, decide.EndUndecided{Effects: ids, As: as, Revisions: revisions, Actor: access.Actor, Reason: why.Reason})
	return DecidedEffects{Ended: n, As: as, Effects: ids}, err
}
