package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// missingRows are effects that are no longer in the database.
type missingRows struct {
	ids  []string
	span span
	by   string
}

// readAgainFor is how far back rows are read again, since what was begun then may have been committed only now.
const readAgainFor = 15 * time.Second

const readEffects = `
SELECT e.id::text, e.idempotency_key, s.name, v.event_id, r.name, e.state, coalesce(e.reason, ''), e.finished_at
FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN route r ON r.id = e.route_id JOIN source s ON s.id = v.source_id
WHERE e.id > $1 OR e.finished_at >= $2`

// snapshot reads the effects that are new or were settled since the last time.
func (c *campaign) snapshot(ctx context.Context) error {
	began := time.Now()
	rows, err := c.db.Query(ctx, readEffects, inbox.FirstID(c.lastRead.Add(-readAgainFor)), c.lastRead.Add(-readAgainFor))
	if err != nil {
		return fmt.Errorf("reading effects: %w", err)
	}
	var id, key, source, event, route, state, reason string
	var finished *time.Time
	var ended []*history
	_, err = pgx.ForEachRow(rows, []any{&id, &key, &source, &event, &route, &state, &reason, &finished}, func() error {
		h := c.histories[id]
		if h == nil {
			h = &history{id: id, key: baseKey(key), source: source, event: event, route: route, changed: true}
			c.histories[id] = h
			c.nameOf(h)
			c.place(h)
		}
		h.state, h.reason = state, reason
		if finished != nil && !finished.Equal(h.finished) {
			h.finished = *finished
			h.endings = append(h.endings, ending{kind: settledAs(state, reason), span: span{from: *finished}, by: seenInDatabase})
			ended = append(ended, h)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading effects: %w", err)
	}
	now := time.Now()
	for _, h := range ended {
		h.endings[len(h.endings)-1].to = now
	}
	c.lastRead = began
	return nil
}

// nameOf records an effect under its first key. No other effect has it, unless a recipe makes the key of the meaning: then the effect of
// another event has it if that event means the same, and the earlier effect lost its claim to the meaning or is pruned.
func (c *campaign) nameOf(h *history) {
	for _, other := range c.byKey[h.key] {
		if !hasRecipe(h.route) || other.route != h.route || other.name() == h.name() {
			c.violate(rig.NewViolation(doubled, "%s has the key of %s", h.describe(), other.describe()))
		}
	}
	c.byKey[h.key] = append(c.byKey[h.key], h)
}

// sentFor finds the effect that a request under the key was sent for. Without an event it is the first with the key.
func (c *campaign) sentFor(key, event string) *history {
	for _, h := range c.byKey[baseKey(key)] {
		if event == "" || h.name() == event {
			return h
		}
	}
	return nil
}

// settledAs is how a settled effect was ended.
func settledAs(state, reason string) string {
	switch {
	case state == string(inbox.EffectSkipped) && reason == string(reasons.Discarded):
		return discarded
	case state == string(inbox.EffectSkipped) && reason == string(reasons.Pruned):
		return pruned
	}
	return state
}

// place finds the stream of an effect, if its route keeps one order.
func (c *campaign) place(h *history) {
	if !keepsOrder(h.route) {
		return
	}
	id, _, _ := strings.Cut(h.event, "~") // an admitted conflict has the number of its event
	e := c.deliveries.events[h.source+"/"+id]
	if e == nil {
		return
	}
	s := c.stream(h.route, e.payloads[0].Order)
	s.numbers[e.payloads[0].Number] = append(s.numbers[e.payloads[0].Number], h)
}

func (c *campaign) stream(route, order string) *stream {
	s := c.streams[route+"/"+order]
	if s == nil {
		s = &stream{numbers: map[int][]*history{}}
		c.streams[route+"/"+order] = s
	}
	return s
}

// The events of a stream say which key it has, because the key may have been erased from the stream itself.
const eventsOfStream = `
SELECT r.name, array_agg(src.name || '/' || split_part(v.event_id, '~', 1))
FROM stream s
JOIN route r ON r.id = s.route_id
JOIN effect e ON e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash
JOIN inbox_event v ON v.id = e.event_id
JOIN source src ON src.id = v.source_id
WHERE s.id = $1
GROUP BY r.name`

// passed records that an operator let a stream continue.
func (o *operator) passed(ctx context.Context, a *act, id string) {
	var route string
	var events []string
	err := o.db.QueryRow(ctx, eventsOfStream, id).Scan(&route, &events)
	if err != nil || a.ExitCode != 0 && !a.killed {
		return
	}
	order := o.deliveries.orderOf(events)
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.stream(route, order)
	s.passes = append(s.passes, a.span())
}

const missingOf = `SELECT a.id::text FROM unnest($1::uuid[]) a (id) WHERE NOT EXISTS (SELECT FROM effect e WHERE e.id = a.id)`

// lookForGone records which effects are missing after a command has returned.
func (o *operator) lookForGone(ctx context.Context, a *act) error {
	return o.findGone(ctx, o.prunable, span{a.Started, a.Ended}, a.String())
}

func (c *campaign) findGone(ctx context.Context, ids []string, s span, by string) error {
	rows, err := c.db.Query(ctx, missingOf, ids)
	if err != nil {
		return fmt.Errorf("looking for what was pruned: %w", err)
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("looking for what was pruned: %w", err)
	}
	s.to = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = append(c.missing, missingRows{missing, s, by})
	return nil
}

// observe reads everything that is new after a round, and judges it.
func (c *campaign) observe(ctx context.Context) error {
	probes, heard := c.ledger.probesSince(c.probesRead), c.ledger.requestsSince(c.requestsRead) // read first, so that their effects have been committed
	if err := c.snapshot(ctx); err != nil {
		return err
	}
	if err := c.findGone(ctx, c.prunable, span{from: c.lastRead}, "a pass of prune"); err != nil {
		return err
	}
	if err := c.decisions(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	for _, g := range c.missing {
		for _, id := range g.ids {
			if h := c.histories[id]; !h.missing {
				h.missing, h.changed = true, true
				h.endings = append(h.endings, ending{pruned, g.span, g.by})
				c.counts["effect pruned"]++
			}
		}
	}
	c.missing = nil
	for _, r := range c.replays {
		for _, a := range r.runs[min(c.replayRuns[r.id], len(r.runs)):] {
			for _, id := range r.items {
				if h := c.histories[id]; h != nil {
					p := r.permit(a)
					if r.options.IncludeDiscarded && slices.ContainsFunc(h.endings, func(e ending) bool { return e.kind == discarded && !e.from.After(r.planned.to) }) {
						p.overrides = append(p.overrides, mayHaveHappened)
					}
					h.permits, h.changed = append(h.permits, p), true
				}
			}
		}
		c.replayRuns[r.id] = len(r.runs)
	}
	c.mu.Unlock()
	c.recordHistory(probes)
	c.recordRequests(heard)
	c.prunable = c.prunable[:0:0]
	for _, h := range c.histories {
		if h.changed {
			c.violate(judgeRequests(h)...)
			h.changed = false
		}
		if h.source == "brief" && !h.missing {
			c.prunable = append(c.prunable, h.id)
		}
	}
	acts := c.allActs()
	for _, a := range acts[c.actsJudged:] {
		c.violate(a.compareReport()...)
	}
	c.actsJudged = len(acts)
	return c.checkStandstill(ctx)
}

// recordHistory records what probes were told: what a target does not know may be sent again.
func (c *campaign) recordHistory(probes []probeAnswer) {
	for _, p := range probes {
		c.probesRead++
		h := c.sentFor(p.key, "")
		switch {
		case h == nil:
			c.violate(rig.NewViolation(unexpected, "a probe asked at %s about key %q, which no effect has", p.at.Format(clockFormat), p.key))
		case p.done:
			c.counts["probe: done"]++
			h.probed = true
		default:
			c.counts["probe: absent"]++
			h.changed = true
			h.permits = append(h.permits, permit{decided: span{p.at, p.at}, from: p.at, overrides: []string{mayHaveHappened}, who: "a probe"})
		}
	}
}

// prunedUnread reports whether the effect of a request may have been pruned before the round read it: a round of a busy machine can take
// longer than briefKept.
func prunedUnread(r *request, read time.Time) bool {
	return strings.HasPrefix(r.event, "brief/") && read.Sub(r.at) > briefKept
}

// recordRequests adds the requests to the effects that they belong to.
func (c *campaign) recordRequests(heard []*request) {
	for _, r := range heard {
		c.requestsRead++
		h := c.sentFor(r.key, r.event)
		if h == nil && prunedUnread(r, c.lastRead) {
			c.counts["pruned unread"]++
			continue
		}
		if h == nil {
			c.violate(rig.NewViolation(unexpected, "a request for %s was sent at %s under key %q, which no effect has", r.event, r.at.Format(clockFormat), r.key))
			continue
		}
		h.requests, h.changed = append(h.requests, r), true
	}
	for _, r := range heard {
		if h := c.sentFor(r.key, r.event); h != nil && keepsOrder(r.route) && r.Order != "" && r.Number > 0 {
			c.violate(c.stream(r.route, r.Order).judge(r, h)...)
		}
	}
}
