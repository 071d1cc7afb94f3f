package jobs

import (
	"bytes"
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// In a route with a list, each item has a separate key, made of the recipe's result and
// the item, and happens once under that key. The first effect of the route still owns the
// recipe's key, because earlier versions kept one key for a whole list: they look for that
// owner, and this version finds their lists by it.

// ownerPause is how long an effect waits before it checks again whether the owner of its
// recipe's key became a list.
const ownerPause = time.Second

// adoptOwner makes sure that the items of the list that owns the recipe's key have their
// own keys, because an earlier version did not write them. It then returns nil: the effect
// continues, and asks for the key of each of its items. If no stored data shows to whom
// the owner was sent, the effect becomes its duplicate, as in that version.
func (a attempt) adoptOwner(ctx context.Context, recipe []byte, owner inbox.ID) (*inbox.Settlement, error) {
	head, err := a.store.ListHead(ctx, owner)
	if err != nil {
		return nil, err
	}
	duplicate := func() *inbox.Settlement {
		s := ending(a.claim)
		s.State, s.DuplicateOf = inbox.EffectDuplicate, owner
		return &s
	}
	key := func(items []inbox.ItemMeaning) error {
		return a.store.KeyItems(ctx, a.claim.RouteID, head.Event, head.ReceivedAt, items)
	}
	switch {
	case !head.Found:
		return duplicate(), nil
	case head.Last > 0 && !head.Unkeyed:
		return nil, nil //nolint:nilnil // it goes on
	case isList(head.Rendered):
		texts, err := keptTexts(head.Rendered)
		if err != nil {
			return duplicate(), nil //nolint:nilerr // nobody can tell whom it was for
		}
		return nil, key(a.route.List.meanings(texts, head.Last, recipe))
	case head.Rendered != nil && a.route.List.ItemOf != nil:
		text, err := a.route.List.ItemOf(head.Rendered)
		if err != nil {
			return duplicate(), nil //nolint:nilerr // as above
		}
		return nil, key([]inbox.ItemMeaning{{KeyHash: inbox.ItemKeyHash(recipe, a.route.List.meaning(text))}})
	case !bytes.Equal(head.KeyHash, inbox.StoredKeyHash(recipe, a.route.stored.KeyWithin, head.ReceivedAt)):
		return nil, nil //nolint:nilnil // it owns the key of its only item
	case !head.State.Settled() && !head.State.AtRest():
		s := putBack(a.claim, inbox.ReasonListOpen, a.jittered(ownerPause))
		return &s, nil
	}
	return duplicate(), nil
}

// meanings returns the keys of the items of a stored list, up to a position.
func (l *List) meanings(texts []string, last int, recipe []byte) []inbox.ItemMeaning {
	texts = texts[:min(last, len(texts))]
	out := make([]inbox.ItemMeaning, len(texts))
	for i, text := range texts {
		out[i] = inbox.ItemMeaning{Position: i + 1, KeyHash: inbox.ItemKeyHash(recipe, l.meaning(text))}
	}
	return out
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
