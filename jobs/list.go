package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs/effect"
)

// List turns one effect into one for each text that an expression returns, such as one
// mail for each recipient. Items and Render are required.
type List struct {
	// Items returns a text or a list of texts.
	Items *expression.Program

	// Meaning returns what an item means. Of several items with one meaning, only the
	// first is used. The key of an item is made of the route's recipe and the item's
	// meaning. nil means that the text is the meaning.
	Meaning func(item string) string

	// Check returns an error if nothing can be sent to an item, whatever the event is.
	// Only that item becomes a dead letter. Operators see the error, so it must not quote
	// the item. nil checks nothing.
	Check func(item string) error

	// ItemOf returns the item for which rendered was made. nil means that this is not known.
	ItemOf func(rendered []byte) (string, error)

	// Render returns what is sent for one item. Operators see its error, so it must not
	// quote the event.
	Render func(call *effect.Call, item string) ([]byte, error)
}

// MaxItems is the largest number of distinct items in a list.
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

// distinct returns the items of the texts. Of texts with one meaning it keeps the first.
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

// items returns the route's list, or the list that an earlier run stored. A stored list
// is not evaluated again, because the items that are written have its positions.
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

// isList reports whether an effect's stored bytes are a list and not a message.
func isList(rendered []byte) bool { return len(rendered) > 0 && rendered[0] == '[' }

// keptTexts decodes the texts of a stored list.
func keptTexts(stored []byte) ([]string, error) {
	var texts []string
	if json.Unmarshal(stored, &texts) != nil {
		return nil, expression.ErrType
	}
	return texts, nil
}

// keepTexts encodes a list for storage, each item at its position. At the position of a
// duplicate it stores the first item, which distinct drops there.
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

// prepare returns what an effect of a route with a list sends, or it settles the effect:
// an effect that becomes several sends nothing itself. held is false if this process has
// lost the claim.
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

// expand runs the effect that admission wrote for a route with a list. If the list has
// one item, expand renders it. If it has more, expand writes an effect for each, and the
// first effect is done when they are written or, in an ordered route, when they are
// settled. settlement is nil if the effect sends something itself.
func (a attempt) expand(ctx context.Context, call *effect.Call) (rendered []byte, settlement *inbox.Settlement, held bool) {
	claim, route := a.claim, a.route
	items, err := route.items(claim)
	if err != nil {
		return nil, a.expressionFailure(ctx, "to: "+route.List.Items.String(), err), true
	}
	done, settled, err := a.resumeList(ctx, items)
	switch {
	case err != nil:
		return nil, a.retryExpansion(ctx, err, false), true
	case settled != nil:
		return nil, settled, true
	case len(items) == 0:
		return nil, a.skipped(reasons.Condition), true
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
	call.FetchedPayload()
	e := expansion{attempt: a, call: call, items: items, done: done}
	settlement, held = e.write(ctx)
	return nil, settlement, held
}

// listDone settles an effect whose items are written and, in an ordered route, settled.
func listDone(claim *inbox.Claim, items int) *inbox.Settlement {
	s := ending(claim)
	s.State, s.Outcome, s.Result = inbox.EffectDone, inbox.AttemptDone, fmt.Appendf(nil, `{"items":%d}`, items)
	return &s
}

// renderItem renders an item whose rendering failed when the item was written.
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

// ItemText returns the text at a position, from 1, of the stored list of an effect. It
// returns "" if stored is no list or has no such position.
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

// retryExpansion settles an effect whose list could not be read or written. An attempt that
// wrote some of the items is not counted, and the next one continues after them.
func (a attempt) retryExpansion(ctx context.Context, err error, progressed bool) *inbox.Settlement {
	a.log.WarnContext(ctx, "writing a list failed", "source", a.route.Source, "route", a.route.Name, "effect", a.claim.Effect.String(),
		"error", clean(err.Error()))
	if progressed || ctx.Err() != nil {
		s := putBack(a.claim, reasons.Unavailable, a.faultPause(ctx))
		return &s
	}
	s := decideSettlement(a.claim, &inbox.EffectRoute{InDatabase: true, Retry: a.route.stored.Retry}, effect.Result{Outcome: effect.Retry, Reason: reasons.Unavailable}, a.elapsed(), a.random)
	return &s
}

// expansionTurn is how long one attempt writes items before other effects have their turn.
const expansionTurn = 10 * time.Second
