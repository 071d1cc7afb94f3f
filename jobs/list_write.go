package jobs

import (
	"context"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// maxChunkBytes limits the size of the rendered items that one transaction writes. The last
// item may exceed it. The number of items has a limit too.
const maxChunkBytes = 4 << 20

// expansion writes the items of the list that an effect became, in chunks. Each chunk is
// one transaction. This attempt, the next one or another process continues after the last
// position that is written.
type expansion struct {
	attempt
	call   *effect.Call
	items  []listItem
	recipe []byte // the key that the route's recipe returns for the event; nil without a recipe
	done   inbox.ItemsDone
}

// write writes the items that are not written yet. held is false if this process has lost
// the claim.
func (e *expansion) write(ctx context.Context) (s *inbox.Settlement, held bool) {
	claim, route := e.claim, e.route
	var err error
	if route.Key != nil {
		if e.recipe, err = route.Key.Hash(route.keyInput(claim)); err != nil {
			return e.expressionFailure(ctx, "key", err), true
		}
	}
	last, err := e.store.LastItem(ctx, claim)
	if err != nil {
		return e.retryExpansion(ctx, err, false), true
	}
	if last == 0 {
		if s, held := e.begin(ctx); s != nil || !held {
			return s, held
		}
	}
	at, _ := slices.BinarySearchFunc(e.items, last+1, func(i listItem, position int) int { return i.position - position })
	turn := e.turn()
	for begun := at; at < len(e.items); {
		if at > begun && (e.elapsed() > turn || ctx.Err() != nil) {
			s := putBack(claim, reasons.ListOpen, 0)
			return &s, true
		}
		chunk := e.chunk(at)
		written, err := e.store.WriteItems(ctx, claim, chunk)
		if err != nil {
			return e.retryExpansion(ctx, err, at > begun), true
		}
		if !written.Held {
			return nil, false
		}
		e.reportItems(ctx, written)
		at += len(chunk)
	}
	if route.stored.Order.Ordered() {
		s := putBack(claim, reasons.ListOpen, listWait(len(e.items)))
		return &s, true
	}
	return listDone(claim, len(e.items)), true
}

// begin renders the first item that passes the check. If that fails, the effect fails before
// any item is written, because the others are expected to fail likewise. Otherwise begin stores
// the list, so that a later run continues with it, even under another configuration.
func (e *expansion) begin(ctx context.Context) (s *inbox.Settlement, held bool) {
	for _, item := range e.items {
		if e.route.List.check(item.text) == nil {
			if _, err := e.render(item); err != nil {
				return e.expressionFailure(ctx, "message", err), true
			}
			break
		}
	}
	if e.claim.Rendered != nil {
		return nil, true
	}
	list, err := keepTexts(e.items)
	if err != nil {
		return e.expressionFailure(ctx, "to", err), true
	}
	mine, err := e.store.StartSend(context.WithoutCancel(ctx), e.claim, inbox.SendStart{Rendered: list})
	if err != nil {
		return e.retryExpansion(ctx, err, false), true
	}
	return nil, mine
}

// turn returns how long the attempt writes items.
func (e *expansion) turn() time.Duration { return min(e.route.stored.Lease/2, expansionTurn) }

// chunk renders the next items: fewer if they are large or slow to render.
func (e *expansion) chunk(at int) []inbox.ListItem {
	out := make([]inbox.ListItem, 0, inbox.MaxItemsWritten)
	for size, turn := 0, e.turn(); at < len(e.items) && len(out) < inbox.MaxItemsWritten && size < maxChunkBytes; at++ {
		if len(out) > 0 && e.elapsed() > turn {
			break
		}
		item := e.items[at]
		one := inbox.ListItem{Position: item.position, Key: inbox.ItemKey(e.claim, item.meaning)}
		if e.recipe != nil {
			one.KeyHash = inbox.ItemKeyHash(e.recipe, item.meaning)
		}
		if one.DoneBy = e.done.By(item.meaning); !one.DoneBy.IsZero() {
			out = append(out, one)
			continue
		}
		rendered, err := e.render(item)
		if err != nil {
			one.Failure, one.Excerpt = reasons.Mapping, clean("message: "+err.Error())
		}
		one.Rendered = rendered
		size += len(rendered)
		out = append(out, one)
	}
	return out
}

func (e *expansion) render(item listItem) ([]byte, error) {
	one := *e.call
	one.Key, one.Rendered = inbox.ItemKey(e.claim, item.meaning), nil
	return e.route.List.render(&one, item.text)
}

// reportItems logs and reports to Observe the items that became duplicates or dead letters
// when they were written.
func (e *expansion) reportItems(ctx context.Context, written inbox.ItemsWritten) {
	if len(written.Duplicates) > 0 {
		e.log.InfoContext(ctx, "items recognised as duplicates", "source", e.route.Source, "route", e.route.Name,
			"effect", e.claim.Effect.String(), "items", len(written.Duplicates))
	}
	if len(written.Dead) > 0 {
		e.log.WarnContext(ctx, "items dead: nothing can be rendered for them", "source", e.route.Source, "route", e.route.Name,
			"effect", e.claim.Effect.String(), "items", len(written.Dead), "first", written.Dead[0].String())
	}
	if e.cfg.Observe == nil {
		return
	}
	report := Report{Event: e.claim.Event.ID, Source: e.route.Source, Route: e.route.Name, Target: e.route.Target}
	for _, id := range written.Duplicates {
		report.Effect, report.State = id, inbox.EffectDuplicate
		e.cfg.Observe(report)
	}
	for _, id := range written.Dead {
		report.Effect, report.State = id, inbox.EffectDead
		report.Attempt, report.Outcome, report.Reason = 1, inbox.AttemptDead, reasons.Mapping
		e.cfg.Observe(report)
	}
}
