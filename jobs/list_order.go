package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// In an ordered route the effect that became a list has the place of all its items:
// it waits until they are settled, and what is behind it waits for it. How soon it
// looks again: what it counts grows with the list.
const (
	leastListLook = 500 * time.Millisecond
	mostListLook  = 30 * time.Second
	lookEachItem  = 100 * time.Microsecond
)

func listLook(items int) time.Duration {
	return min(max(leastListLook, time.Duration(items)*lookEachItem), mostListLook)
}

// listed settles an effect whose items are all written, by how they stand; nil if
// some are still to be written.
func (c *Client) listed(ctx context.Context, claim *inbox.Claim, n int) (*inbox.Settlement, error) {
	items, err := c.store.Items(ctx, claim)
	switch {
	case err != nil:
		return nil, err
	case items.All < n:
		return nil, nil //nolint:nilnil // as it says above
	case items.Open > 0:
		s := putBack(claim, inbox.ReasonListOpen, min(max(listLook(n), items.Next), mostListLook))
		return &s, nil
	case items.Failed > 0:
		s := ending(claim)
		s.State, s.Outcome, s.Reason = inbox.EffectDead, inbox.AttemptDead, inbox.ReasonListItem
		s.Excerpt = fmt.Sprintf("%d of %d items are dead or indeterminate: settle or replay them, then replay this one", items.Failed, n)
		return &s, nil
	}
	return allWritten(claim, n), nil
}

// unplaced settles an effect whose route refuses lists.
func (c *Client) unplaced(ctx context.Context, claim *inbox.Claim, route Route, n int) *inbox.Settlement {
	c.log.WarnContext(ctx, "list in a route of mode latest", "source", route.Source, "route", route.Name, "effect", claim.Effect.String())
	s := ending(claim)
	s.State, s.Outcome, s.Reason, s.Excerpt = inbox.EffectDead, inbox.AttemptDead, inbox.ReasonListOrder, clean(unplacedList(route, n))
	return &s
}

func unplacedList(route Route, n int) string {
	return fmt.Sprintf("to: %s gives %d, and in mode latest an effect is one: use another order, or a route for each", route.List.Items.String(), n)
}
