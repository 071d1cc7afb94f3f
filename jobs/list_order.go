package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// In an ordered route the effect that became a list has the place of all its items in the
// stream: it waits until they are settled, and later effects wait for it. It checks a long
// list less often, because each check counts the items.
const (
	minListWait  = 500 * time.Millisecond
	maxListWait  = 30 * time.Second
	listWaitEach = 100 * time.Microsecond
)

func listWait(items int) time.Duration {
	return min(max(minListWait, time.Duration(items)*listWaitEach), maxListWait)
}

// settleList settles an effect whose items are all written, according to their states. It
// returns nil if some are still to be written.
func (a attempt) settleList(ctx context.Context, list []listItem) (*inbox.Settlement, error) {
	claim, n := a.claim, len(list)
	items, err := a.store.Items(ctx, claim)
	switch {
	case err != nil:
		return nil, err
	case items.Last < list[n-1].position:
		return nil, nil //nolint:nilnil // as it says above
	}
	if s := a.awaitItems(items, n); s != nil {
		return s, nil
	}
	return listDone(claim, n), nil
}

// awaitItems puts a list of n items back until all have ended, and makes it a dead letter if some failed. It returns nil if
// none is left to be settled.
func (a attempt) awaitItems(items inbox.Items, n int) *inbox.Settlement {
	switch {
	case items.Open > 0:
		s := putBack(a.claim, reasons.ListOpen, min(max(listWait(n), items.Next), maxListWait))
		return &s
	case items.Failed > 0:
		s := ending(a.claim)
		s.State, s.Outcome, s.Reason = inbox.EffectDead, inbox.AttemptDead, reasons.ListItem
		s.Excerpt = fmt.Sprintf("%d of %d items are dead or indeterminate: settle or replay them, then replay this one", items.Failed, n)
		return &s
	}
	return nil
}

// checkCancelled settles an effect whose list an operator has cancelled. In an ordered route the effect that became the list
// keeps its place in the stream until the items that are under way have ended.
func (a attempt) checkCancelled(ctx context.Context) (*inbox.Settlement, error) {
	if a.route.List == nil {
		return nil, nil //nolint:nilnil // as for each check
	}
	cancelled, err := a.store.ListCancelled(ctx, a.claim)
	if err != nil || !cancelled {
		return nil, err
	}
	if a.claim.Item == 0 && a.route.stored.Order.Ordered() {
		items, err := a.store.Items(ctx, a.claim)
		if err != nil {
			return nil, err
		}
		if s := a.awaitItems(items, items.Last); s != nil {
			return s, nil
		}
	}
	return a.skipped(reasons.Cancelled), nil
}

// refuseList settles an effect whose route refuses lists.
func (a attempt) refuseList(ctx context.Context, n int) *inbox.Settlement {
	a.log.WarnContext(ctx, "list in a route of mode latest", "source", a.route.Source, "route", a.route.Name, "effect", a.claim.Effect.String())
	s := ending(a.claim)
	s.State, s.Outcome, s.Reason, s.Excerpt = inbox.EffectDead, inbox.AttemptDead, reasons.ListOrder, clean(listRefusal(&a.route.Route, n))
	return &s
}

// listRefusal explains to operators why a route in mode latest cannot have a list.
func listRefusal(route *Route, n int) string {
	return fmt.Sprintf("to: %s gives %d, and in mode latest an effect is one: use another order, or a route for each", route.List.Items.String(), n)
}
