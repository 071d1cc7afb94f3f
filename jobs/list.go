package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox"
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

var errItems = errors.New("the list is longer than 50,000")

// expand carries out the effect that admission wrote where the route has a list.
// With one item it renders that; with more it writes an effect for each, and is
// done when they are written; in an ordered route when they are settled. settlement is not nil if that was all.
func (c *Client) expand(ctx context.Context, claim *inbox.Claim, route Route, call *effect.Call) (rendered []byte, settlement *inbox.Settlement, held bool) {
	items, err := itemsOf(claim, route)
	if err != nil {
		return nil, c.unmapped(ctx, claim, route, "to: "+route.List.Items.String(), err), true
	}
	switch {
	case len(items) == 0:
		s := ending(claim)
		s.State, s.Outcome, s.Reason = inbox.EffectSkipped, inbox.AttemptSkipped, inbox.ReasonCondition
		return nil, &s, true
	case len(items) == 1 && claim.Rendered == nil:
		rendered, err := safeItem(route.List, call, items[0])
		if err != nil {
			return nil, c.unmapped(ctx, claim, route, "message", err), true
		}
		return rendered, nil, true
	}
	known, _ := c.store.Route(claim.RouteID)
	if known.RefusesLists() {
		return nil, c.unplaced(ctx, claim, route, len(items)), true
	}
	if claim.Rendered == nil {
		// The list is kept first: another run, of another configuration even, goes on
		// with the same.
		list, err := json.Marshal(items)
		if err != nil {
			return nil, c.unmapped(ctx, claim, route, "to", expression.ErrType), true
		}
		mine, err := c.store.StartSend(context.WithoutCancel(ctx), claim, list, false)
		switch {
		case err != nil:
			return nil, c.unwritten(claim), true
		case !mine:
			return nil, nil, false
		}
	}
	if claim.Rendered != nil && known.Order.Ordered() {
		switch s, err := c.listed(ctx, claim, len(items)); {
		case err != nil:
			return nil, c.unwritten(claim), true
		case s != nil:
			return nil, s, true
		}
	}
	var failed error
	mine, err := c.store.Expand(ctx, claim, len(items), func(i int) ([]byte, error) {
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
		return nil, c.unmapped(ctx, claim, route, "message", failed), true
	case err != nil:
		return nil, c.unwritten(claim), true
	case !mine:
		return nil, nil, false
	}
	if known.Order.Ordered() {
		s := putBack(claim, inbox.ReasonListOpen, listLook(len(items)))
		return nil, &s, true
	}
	return nil, allWritten(claim, len(items)), true
}

func allWritten(claim *inbox.Claim, items int) *inbox.Settlement {
	s := ending(claim)
	s.State, s.Outcome, s.Result = inbox.EffectDone, inbox.AttemptDone, fmt.Appendf(nil, `{"items":%d}`, items)
	return &s
}

// unwritten is for a list whose items the database did not take.
func (c *Client) unwritten(claim *inbox.Claim) *inbox.Settlement {
	s := decide(claim, inbox.EffectRoute{InDatabase: true}, effect.Result{Outcome: effect.Retry, Reason: string(inbox.ReasonUnavailable)}, 0, c.random)
	return &s
}

// itemsOf are the route's list, or what an earlier run kept of it.
func itemsOf(claim *inbox.Claim, route Route) ([]string, error) {
	if claim.Rendered != nil {
		var items []string
		if json.Unmarshal(claim.Rendered, &items) != nil {
			return nil, expression.ErrType
		}
		return items, nil
	}
	items, err := route.List.Items.Texts(input(claim, route))
	if err == nil && len(items) > MaxItems {
		err = errItems
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

// lists says that the effect is one that may become several.
func lists(claim *inbox.Claim, route Route) bool {
	return route.List != nil && claim.Item == 0 && (claim.Rendered == nil || isList(claim.Rendered))
}
