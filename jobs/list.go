package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// List makes of one effect as many as an expression gives texts: mail to each of
// several recipients. Items and Render are required.
type List struct {
	// Items gives a text or a list of texts.
	Items *expression.Program

	// Meaning gives what an item means: of several items with one meaning the first
	// counts, and it is the part of an item's key that does not come from the route's
	// recipe. nil is the text itself.
	Meaning func(item string) string

	// Check says why nothing can be sent to an item, whatever the event is. Such an item
	// is a dead letter by itself. The error is told to people and must not quote the item.
	// nil checks nothing.
	Check func(item string) error

	// ItemOf gives the item for which something was rendered. nil gives none.
	ItemOf func(rendered []byte) (string, error)

	// Render makes what is sent for one item. Its error is told to people and must
	// not quote the event.
	Render func(call *effect.Call, item string) ([]byte, error)
}

// MaxItems bounds a list.
const MaxItems = 50_000

var errListLength = errors.New("the list is longer than 50,000")

// listItem is one text of a list.
type listItem struct {
	position      int // in the list as the sender wrote it, from 1
	text, meaning string
}

func (l *List) meaning(text string) string {
	if l.Meaning == nil {
		return text
	}
	return l.Meaning(text)
}

// distinct gives the items of the texts: each meaning once, where it stands first.
func (l *List) distinct(texts []string) []listItem {
	out := make([]listItem, 0, len(texts))
	seen := make(map[string]struct{}, len(texts))
	for i, text := range texts {
		meaning := l.meaning(text)
		if _, again := seen[meaning]; again {
			continue
		}
		seen[meaning] = struct{}{}
		out = append(out, listItem{position: i + 1, text: text, meaning: meaning})
	}
	return out
}

// items are the route's list, or what an earlier run kept of it. A list that is kept
// stays as it is: its positions are those of the items that are written.
func (r *Route) items(claim *inbox.Claim) ([]listItem, error) {
	if claim.Rendered != nil {
		texts, err := keptTexts(claim.Rendered)
		if err != nil {
			return nil, err
		}
		return r.List.distinct(texts), nil
	}
	texts, err := r.List.Items.Texts(r.input(claim))
	if err != nil {
		return nil, err
	}
	items := r.List.distinct(texts)
	if len(items) > MaxItems {
		return nil, errListLength
	}
	return items, nil
}

// isList reports whether what is stored of an effect is a list and not a message.
func isList(rendered []byte) bool { return len(rendered) > 0 && rendered[0] == '[' }

// keptTexts are the texts of a list as it is stored.
func keptTexts(stored []byte) ([]string, error) {
	var texts []string
	if json.Unmarshal(stored, &texts) != nil {
		return nil, expression.ErrType
	}
	return texts, nil
}

// keepTexts is a list as it is stored: each item is at its position. At the position of a repetition it stores the first item, which
// counts as a repetition there whatever the texts are.
func keepTexts(items []listItem) ([]byte, error) {
	texts := make([]string, items[len(items)-1].position)
	for i := range texts {
		texts[i] = items[0].text
	}
	for _, item := range items {
		texts[item.position-1] = item.text
	}
	list, err := json.Marshal(texts)
	if err != nil {
		return nil, expression.ErrType
	}
	return list, nil
}

// prepare makes what an effect of a route with a list sends, or settles it: an effect
// that becomes several sends nothing itself. held is false if the claim is no longer
// ours.
func (a attempt) prepare(ctx context.Context, call *effect.Call) (rendered []byte, settlement *inbox.Settlement, held bool) {
	switch {
	case a.claim.Item > 0 && a.claim.Rendered == nil:
		return a.renderItem(ctx, call)
	case a.claim.Item > 0:
		return nil, nil, true
	case !a.route.expands(a.claim):
		settlement, held = a.askForStored(ctx)
		return nil, settlement, held
	}
	return a.expand(ctx, call)
}

// expand carries out the effect that admission wrote where the route has a list.
// With one item it renders that; with more it writes an effect for each, and is
// done when they are written; in an ordered route when they are settled. settlement
// is not nil if that was all.
func (a attempt) expand(ctx context.Context, call *effect.Call) (rendered []byte, settlement *inbox.Settlement, held bool) {
	claim, route := a.claim, a.route
	items, err := route.items(claim)
	if err != nil {
		return nil, a.expressionFailure(ctx, "to: "+route.List.Items.String(), err), true
	}
	switch {
	case len(items) == 0:
		s := ending(claim)
		s.State, s.Outcome, s.Reason = inbox.EffectSkipped, inbox.AttemptSkipped, inbox.ReasonCondition
		return nil, &s, true
	case len(items) == 1 && claim.Rendered == nil:
		if s, held := a.askForItem(ctx, items[0].meaning); s != nil || !held {
			return nil, s, held
		}
		call.Key = claim.Key // askForItem may have made a new one
		rendered, err := safeItem(route.List, call, items[0].text)
		if err != nil {
			return nil, a.expressionFailure(ctx, "message", err), true
		}
		return rendered, nil, true
	}
	if route.stored.RefusesLists() {
		return nil, a.refuseList(ctx, len(items)), true
	}
	if claim.Rendered != nil && route.stored.Order.Ordered() {
		switch s, err := a.settleList(ctx, items); {
		case err != nil:
			return nil, a.retryExpansion(ctx, err, false), true
		case s != nil:
			return nil, s, true
		}
	}
	call.Payload() // decoded here, so that the copies of the call that the items get share it
	e := expansion{attempt: a, call: call, items: items}
	settlement, held = e.write(ctx)
	return nil, settlement, held
}

// listDone settles an effect whose items are written and, in an ordered route, settled.
func listDone(claim *inbox.Claim, items int) *inbox.Settlement {
	s := ending(claim)
	s.State, s.Outcome, s.Result = inbox.EffectDone, inbox.AttemptDone, fmt.Appendf(nil, `{"items":%d}`, items)
	return &s
}

// renderItem renders an item for which nothing could be rendered when it was written.
func (a attempt) renderItem(ctx context.Context, call *effect.Call) (rendered []byte, settlement *inbox.Settlement, held bool) {
	if a.claim.ListText == "" {
		stored, err := a.store.ListOf(ctx, a.claim)
		if err != nil {
			return nil, a.retryExpansion(ctx, err, false), true
		}
		a.claim.ListText = ItemText(stored, a.claim.Item)
	}
	rendered, err := a.route.List.render(call, a.claim.ListText)
	if err != nil {
		return nil, a.expressionFailure(ctx, "message", err), true
	}
	return rendered, nil, true
}

// ItemText gives an item's text from what is stored of the effect that became the list;
// empty if that is no list.
func ItemText(stored []byte, position int) string {
	texts, err := keptTexts(stored)
	if err != nil || position < 1 || position > len(texts) {
		return ""
	}
	return texts[position-1]
}

// render checks the item and renders it.
func (l *List) render(call *effect.Call, text string) ([]byte, error) {
	if err := l.check(text); err != nil {
		return nil, err
	}
	return safeItem(l, call, text)
}

func (l *List) check(text string) error {
	if l.Check == nil {
		return nil
	}
	return l.Check(text)
}

func safeItem(list *List, call *effect.Call, item string) (rendered []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic of type %T", p)
		}
	}()
	return list.Render(call, item)
}

// retryExpansion is for a list that the database did not read or take. An attempt that
// has got on counts for none, and the next one goes on where it ended.
func (a attempt) retryExpansion(ctx context.Context, err error, progressed bool) *inbox.Settlement {
	a.log.WarnContext(ctx, "writing a list failed", "source", a.route.Source, "route", a.route.Name, "effect", a.claim.Effect.String(),
		"error", clean(err.Error()))
	if progressed || ctx.Err() != nil {
		s := putBack(a.claim, reasons.Unavailable, a.faultPause(ctx))
		return &s
	}
	s := decide(a.claim, &inbox.EffectRoute{InDatabase: true, Retry: a.route.stored.Retry}, effect.Result{Outcome: effect.Retry, Reason: reasons.Unavailable}, a.elapsed(), a.random)
	return &s
}

// expansionTurn is for how long one attempt writes items before it makes room for others.
const expansionTurn = 10 * time.Second
