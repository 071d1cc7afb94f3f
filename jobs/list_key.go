package jobs

import (
	"bytes"
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// In a route with a list, each item has a separate key, made of the recipe's result and
// the item, and happens once under that key. The first effect of the route also owns the
// recipe's key, for the events that were received before the route had a list.

// ownerPause is how long an effect waits before it checks again whether the owner of its
// recipe's key became a list.
const ownerPause = time.Second

// besideOwner decides about an effect whose recipe's key belongs to another effect. If
// that one is a list or has a key of its only item, besideOwner returns nil: this effect
// continues, and asks for the key of each of its items. It waits until that is known. If
// the owner happened as a whole, because the route had no list, this effect is its
// duplicate.
func (a attempt) besideOwner(ctx context.Context, recipe []byte, owner inbox.ID) (*inbox.Settlement, error) {
	head, err := a.store.ListHead(ctx, owner)
	switch {
	case err != nil:
		return nil, err
	case head.Found && (head.Written || isList(head.Rendered)):
		return nil, nil //nolint:nilnil // it continues
	case head.Found && !bytes.Equal(head.KeyHash, inbox.StoredKeyHash(recipe, a.route.stored.KeyWithin, head.ReceivedAt)):
		return nil, nil //nolint:nilnil // the owner has the key of its only item
	case head.Found && !head.State.Settled() && !head.State.AtRest():
		s := putBack(a.claim, reasons.ListOpen, a.jittered(ownerPause))
		return &s, nil
	}
	s := ending(a.claim)
	s.State, s.DuplicateOf = inbox.EffectDuplicate, owner
	return &s, nil
}

// askForStored asks for the key of the only item of an effect that is rendered.
func (a attempt) askForStored(ctx context.Context) (*inbox.Settlement, bool) {
	if a.route.List.ItemOf == nil || !a.route.asksForKey(a.claim) {
		return nil, true
	}
	text, err := a.route.List.ItemOf(a.claim.Rendered)
	if err != nil {
		return nil, true // sending says what is wrong with it //nolint:nilerr // as it says
	}
	return a.askForItem(ctx, a.route.List.meaning(text))
}

// askForItem asks for the key of an effect's only item. It returns a settlement if another
// effect owns the key or if asking failed. held is false if this process has lost the claim.
func (a attempt) askForItem(ctx context.Context, meaning string) (s *inbox.Settlement, held bool) {
	if !a.route.asksForKey(a.claim) {
		return nil, true
	}
	recipe, err := a.route.Key.Hash(a.route.keyInput(a.claim))
	if err != nil {
		return a.expressionFailure(ctx, "key", err), true
	}
	a.route.remakeKey(a.claim, recipe, meaning)
	owner, err := a.store.Own(context.WithoutCancel(ctx), a.claim, inbox.ItemKeyHash(recipe, meaning))
	switch {
	case err != nil:
		a.log.WarnContext(ctx, "asking for the key of an item", "effect", a.claim.Effect.String(), "error", clean(err.Error()))
		s := putBack(a.claim, reasons.Unavailable, a.faultPause(ctx))
		return &s, true
	case !owner.Held:
		return nil, false
	case !owner.Effect.IsZero() && owner.Effect != a.claim.Effect:
		s := ending(a.claim)
		s.State, s.DuplicateOf = inbox.EffectDuplicate, owner.Effect
		return &s, true
	}
	return nil, true
}
