package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// List makes of one effect as many as an expression gives texts: mail to each of
// several recipients.
type List struct {
	// Items gives a text or a list of texts.
	Items *expression.Program

	// Render makes what is sent for one item. Its error is told to people and must
	// not quote the event.
	Render func(call *effect.Call, item string) ([]byte, error)
}

// MaxItems bounds a list.
const MaxItems = 50_000

var errListLength = errors.New("the list is longer than 50,000")

// expand carries out the effect that admission wrote where the route has a list.
// With one item it renders that; with more it writes an effect for each, and is
// done when they are written; in an ordered route when they are settled. settlement is not nil if that was all.
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
		rendered, err := safeItem(route.List, call, items[0])
		if err != nil {
			return nil, a.expressionFailure(ctx, "message", err), true
		}
		return rendered, nil, true
	}
	if route.stored.RefusesLists() {
		return nil, a.refuseList(ctx, len(items)), true
	}
	if claim.Rendered == nil {
		// The list is kept first: another run, of another configuration even, goes on
		// with the same.
		list, err := json.Marshal(items)
		if err != nil {
			return nil, a.expressionFailure(ctx, "to", expression.ErrType), true
		}
		mine, err := a.store.StartSend(context.WithoutCancel(ctx), claim, list, false)
		switch {
		case err != nil:
			return nil, a.retryExpansion(), true
		case !mine:
			return nil, nil, false
		}
	}
	if claim.Rendered != nil && route.stored.Order.Ordered() {
		switch s, err := a.settleList(ctx, len(items)); {
		case err != nil:
			return nil, a.retryExpansion(), true
		case s != nil:
			return nil, s, true
		}
	}
	var failed error
	mine, err := a.store.Expand(ctx, claim, len(items), func(i int) ([]byte, error) {
		one := *call
		one.Key, one.Rendered = inbox.ItemKey(claim, i), nil
		rendered, err := safeItem(route.List, &one, items[i-1])
		if err != nil {
			failed = err
		}
		return rendered, err
	})
	switch {
	case failed != nil:
		return nil, a.expressionFailure(ctx, "message", failed), true
	case err != nil:
		return nil, a.retryExpansion(), true
	case !mine:
		return nil, nil, false
	}
	if route.stored.Order.Ordered() {
		s := putBack(claim, inbox.ReasonListOpen, listWait(len(items)))
		return nil, &s, true
	}
	return nil, listDone(claim, len(items)), true
}

// listDone settles an effect whose items are written and, in an ordered route, settled.
func listDone(claim *inbox.Claim, items int) *inbox.Settlement {
	s := ending(claim)
	s.State, s.Outcome, s.Result = inbox.EffectDone, inbox.AttemptDone, fmt.Appendf(nil, `{"items":%d}`, items)
	return &s
}

// retryExpansion is for a list whose items the database did not take.
func (a attempt) retryExpansion() *inbox.Settlement {
	s := decide(a.claim, &inbox.EffectRoute{InDatabase: true}, effect.Result{Outcome: effect.Retry, Reason: reasons.Unavailable}, 0, a.random)
	return &s
}

// items are the route's list, or what an earlier run kept of it.
func (r *Route) items(claim *inbox.Claim) ([]string, error) {
	if claim.Rendered != nil {
		var items []string
		if json.Unmarshal(claim.Rendered, &items) != nil {
			return nil, expression.ErrType
		}
		return items, nil
	}
	items, err := r.List.Items.Texts(r.input(claim))
	if err == nil && len(items) > MaxItems {
		err = errListLength
	}
	return items, err
}

// isList reports whether what is stored of an effect is a list and not a message.
func isList(rendered []byte) bool { return len(rendered) > 0 && rendered[0] == '[' }

func safeItem(list *List, call *effect.Call, item string) (rendered []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic of type %T", p)
		}
	}()
	return list.Render(call, item)
}
