package jobs

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs/effect"
)

// consider decides before an attempt whether there is to be one: whether
// this process can open what is to be sent, whether the target still knows an earlier attempt's key, the route's condition, and who
// owns the effect's key. tx is nil if the claim is committed. A settlement says
// that there is none; held is false if the claim is no longer ours.
func (c *Client) consider(ctx context.Context, tx pgx.Tx, claim *inbox.Claim, route Route) (s *inbox.Settlement, held bool, err error) {
	if s := c.keyMissing(ctx, claim); s != nil {
		return s, true, nil
	}
	known, _ := c.store.Route(claim.RouteID)
	if known.Forgotten(claim.UnknownSince, claim.StartedAt) {
		s := ending(claim)
		s.State, s.Reason = inbox.EffectIndeterminate, inbox.ReasonKeyWindow
		return &s, true, nil
	}
	if s, err := c.elsewhere(ctx, claim); s != nil || err != nil {
		return s, true, err
	}
	// An attempt that may have happened cannot be made undone by a condition.
	if s := c.condition(ctx, claim, route); s != nil {
		return s, true, nil
	}
	// Before the key is asked for: an effect that never happens owns none.
	if s := c.pastDeadline(claim, 0); s != nil {
		return s, true, nil
	}
	hash, s := c.keyOf(ctx, claim, route)
	if hash == nil {
		return s, true, nil
	}
	var owner inbox.Owner
	if tx != nil {
		owner, err = c.store.OwnTx(ctx, tx, claim, hash)
	} else {
		owner, err = c.store.Own(context.WithoutCancel(ctx), claim, hash)
	}
	switch none := (inbox.ID{}); {
	case err != nil:
		return nil, false, err
	case !owner.Held:
		return nil, false, nil
	case owner.Effect != none && owner.Effect != claim.Effect:
		s := ending(claim)
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
	elsewhereFor   = 2 * time.Minute
	elsewhereEvery = 5 * time.Second
)

// elsewhere keeps an effect from a second target: one that may have happened at the
// target that another configuration has for the route is left to a process with that
// configuration, and then to a person.
func (c *Client) elsewhere(ctx context.Context, claim *inbox.Claim) (*inbox.Settlement, error) {
	target, err := c.store.Elsewhere(ctx, claim)
	if err != nil || target == "" {
		return nil, err
	}
	if !c.cfg.Peers.Alike() && claim.StartedAt.Sub(claim.UnknownSince) < elsewhereFor {
		s := putBack(claim, inbox.ReasonElsewhere, elsewhereEvery+time.Duration(c.random()*float64(elsewhereEvery)))
		return &s, nil
	}
	s := ending(claim)
	s.State, s.Reason = inbox.EffectIndeterminate, inbox.ReasonElsewhere
	c.log.WarnContext(ctx, "an effect may have happened at another target than this process has for its route: it is not sent, and waits for a person",
		"effect", claim.Effect.String(), "target", clean(target))
	return &s, nil
}

// keyOf gives the key that an effect has to ask for before this attempt, or how it
// ends if its recipe fails; neither if it asks for none.
func (c *Client) keyOf(ctx context.Context, claim *inbox.Claim, route Route) (hash []byte, s *inbox.Settlement) {
	if !keyed(claim, route) {
		return nil, nil
	}
	hash, err := route.Key.Hash(keyInput(claim, route))
	if err != nil {
		return nil, c.unmapped(ctx, claim, route, "key", err)
	}
	return hash, nil
}

// condition settles an effect whose route's condition is false or fails.
func (c *Client) condition(ctx context.Context, claim *inbox.Claim, route Route) *inbox.Settlement {
	wanted, err := wanted(claim, route)
	if err != nil {
		return c.unmapped(ctx, claim, route, "when: "+route.When.String(), err)
	}
	if wanted {
		return nil
	}
	s := ending(claim)
	s.State, s.Outcome, s.Reason = inbox.EffectSkipped, inbox.AttemptSkipped, inbox.ReasonCondition
	return &s
}

// wanted reports whether a route's condition lets an effect happen. One that may
// have happened, or is an item of a list that was let through, is not asked.
func wanted(claim *inbox.Claim, route Route) (bool, error) {
	if route.When == nil || claim.Item > 0 || !claim.UnknownSince.IsZero() {
		return true, nil
	}
	return route.When.Bool(input(claim, route))
}

// keyed reports whether an attempt has to ask for the effect's key: the first one with
// which it comes back from a state at rest, where it may have lost the key, and one
// after a run whose end was not seen, which may not have come to asking.
func keyed(claim *inbox.Claim, route Route) bool {
	return route.Key != nil && claim.Item == 0 && (claim.KeyHash == nil || claim.Attempt <= 1 || claim.Trigger == inbox.TriggerSweep)
}

// unmapped settles an effect for which an expression cannot be evaluated. What
// is told names the expression, which is configuration; the error is one of a
// closed set and quotes nothing of the event.
func (c *Client) unmapped(ctx context.Context, claim *inbox.Claim, route Route, what string, err error) *inbox.Settlement {
	said := clean(what + ": " + err.Error())
	c.log.LogAttrs(ctx, slog.LevelWarn, "expression failed", slog.String("source", route.Source), slog.String("route", route.Name),
		slog.String("effect", claim.Effect.String()), slog.String("error", said))
	s := ending(claim)
	s.State, s.Outcome, s.Reason, s.Excerpt = inbox.EffectDead, inbox.AttemptDead, inbox.ReasonMapping, said
	return &s
}

// input is a claim's event as expressions see it.
func input(claim *inbox.Claim, route Route) *expression.Input {
	e := &claim.Event
	return &expression.Input{
		Event: expression.Event{
			UUID: e.ID.String(), ID: e.EventID, Type: e.Type, Source: route.Source, Provider: route.Provider,
			OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt,
		},
		Body: e.Body, Headers: HeaderTexts(e.Headers),
	}
}

// keyInput is a claim's event as the recipes of keys see it: a renamed source makes the
// same keys.
func keyInput(claim *inbox.Claim, route Route) *expression.Input {
	in := input(claim, route)
	in.Event.Source = cmp.Or(route.KeySource, route.Source)
	return in
}

// mapped gives what a route's mapping makes of the event; nil without one.
func mapped(call *effect.Call, claim *inbox.Claim, route Route) ([]byte, error) {
	if route.Map == nil {
		return nil, nil
	}
	call.Event.ContentType = "application/json"
	if call.Rendered != nil {
		return nil, nil
	}
	return route.Map.JSON(input(claim, route))
}

// Input is a call's event as expressions see it, for kinds whose parameters are
// expressions. It knows no headers.
func Input(call *effect.Call) *expression.Input {
	e := &call.Event
	return &expression.Input{
		Event: expression.Event{
			UUID: e.ID, ID: e.EventID, Type: e.Type, Source: e.Source, Provider: e.Provider, OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt,
		},
		Body: e.Body,
	}
}
