package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// effectRow is an effect as the database has it at the end.
type effectRow struct {
	id, state, reason string
	attempts, done    int
	tried             string // the attempts, in words
	blocked           bool   // held for a reason
}

const readEffectRows = `
SELECT e.id::text, e.state, coalesce(e.reason, ''),
    (SELECT count(*) FROM effect_attempt a WHERE a.effect_id = e.id),
    (SELECT count(*) FROM effect_attempt a WHERE a.effect_id = e.id AND a.outcome = 'done'),
    NOT (` + heldByNothing + `),
    coalesce((SELECT string_agg(format('%s.%s %s from %s to %s: %s %s', a.version, a.attempt, a.trigger, a.started_at, a.finished_at, a.outcome, a.reason), '; ' ORDER BY a.started_at)
        FROM effect_attempt a WHERE a.effect_id = e.id), '')
FROM effect e LEFT JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash`

// compareEffects compares the state of each effect with its attempts and with what was sent.
func (c *campaign) compareEffects(ctx context.Context) error {
	rows, err := c.db.Query(ctx, readEffectRows)
	if err != nil {
		return fmt.Errorf("reading the books: %w", err)
	}
	states, reasons := map[string]int{}, map[string]int{}
	var s effectRow
	_, err = pgx.ForEachRow(rows, []any{&s.id, &s.state, &s.reason, &s.attempts, &s.done, &s.blocked, &s.tried}, func() error {
		states[s.state]++
		if s.reason != "" {
			reasons[s.state+" "+s.reason]++
		}
		h := c.histories[s.id]
		if h == nil {
			c.violate(rig.NewViolation(unbalanced, "effect %s was never seen before", s.id))
			return nil
		}
		c.violate(compareEffect(h, &s, c.serverKills > 0)...)
		return nil
	})
	c.finalCounts["effects"], c.finalCounts["reasons"] = states, reasons
	if err != nil {
		return fmt.Errorf("reading the books: %w", err)
	}
	return nil
}

// compareEffect compares how one effect ended with what was sent and what operators decided.
func compareEffect(h *history, s *effectRow, kills bool) (out []violation) {
	add := func(kind rig.Kind, format string, args ...any) {
		out = append(out, rig.NewViolation(kind, "%s is %s %s: %s", h.describe(), s.state, s.reason, fmt.Sprintf(format, args...)))
	}
	answered := func(fit func(*request) bool) int {
		n := 0
		for _, r := range h.requests {
			if fit(r) {
				n++
			}
		}
		return n
	}
	succeeded := answered(func(r *request) bool { return r.answer == http.StatusOK })
	byPerson := func(how string) bool {
		return slices.ContainsFunc(h.endings, func(e ending) bool { return e.kind == how && e.by != seenInDatabase })
	}
	if len(h.requests) > s.attempts {
		add(unbalanced, "%d requests were sent and it has %d attempts: %s%s", len(h.requests), s.attempts, s.tried, h.timeline())
	}
	if s.done > succeeded {
		add(unbalanced, "%d attempts say done, and %d requests were answered with success", s.done, succeeded)
	}
	if e := h.lastDecision(); e != nil && !isExplained(e.kind, inbox.EffectState(s.state)) && !h.isPermitted(e, time.Now()) {
		add(overridden, "it was %s by %s, and nobody asked for it afterwards%s", e.kind, e.by, h.timeline())
	}
	explained := true
	switch inbox.EffectState(s.state) {
	case inbox.EffectPending, inbox.EffectClaimed, inbox.EffectRetry:
		add(unfinished, "nothing stands in its way")
	case inbox.EffectHeld:
		if !s.blocked {
			add(unfinished, "nothing holds it")
		}
	case inbox.EffectDone:
		if succeeded == 0 && !byPerson(resolved) && !h.probed {
			add(lost, "no target answered it with success, and nobody said that it happened")
		}
	case inbox.EffectSkipped:
		explained = byPerson(discarded) || s.reason == string(reasons.Pruned) && h.source == "brief"
	case inbox.EffectSuperseded:
		explained = keepsOrder(h.route) || h.route == "turns"
	case inbox.EffectDuplicate:
		explained = h.route == "receipt"
	case inbox.EffectDead:
		switch reasons.Reason(s.reason) {
		case reasons.Exhausted, reasons.Status410, reasons.Status4xx:
			explained = answered(func(r *request) bool { return r.answer != http.StatusOK }) > 0 || kills
		case reasons.BodyGone:
			explained = byPerson(erased)
		default:
			explained = false
		}
	case inbox.EffectIndeterminate:
		switch reasons.Reason(s.reason) {
		case reasons.Status503:
			explained = answered(func(r *request) bool { return r.answer == http.StatusServiceUnavailable }) > 0
		case reasons.Status5xx:
			explained = answered(func(r *request) bool { return r.answer == http.StatusInternalServerError }) > 0
		case reasons.Timeout, reasons.Connection, reasons.Reply:
			explained = answered(func(r *request) bool { return r.answer == 0 }) > 0
		case reasons.LeaseExpired, reasons.Stopped:
			explained = kills
		default:
			explained = false
		}
	}
	if !explained {
		add(unexplained, "nothing of the campaign brings that about")
	}
	return out
}

// isExplained reports whether a decision of an operator explains a state.
func isExplained(how string, state inbox.EffectState) bool {
	switch how {
	case discarded:
		return state == inbox.EffectSkipped
	case resolved:
		return state == inbox.EffectDone
	}
	return state.Settled() || state.AtRest()
}

// compareAcknowledged looks for every acknowledged event and for the effects that it must have had.
func (c *campaign) compareAcknowledged(ctx context.Context) error {
	rows, err := c.db.Query(ctx, `SELECT s.name || '/' || v.event_id FROM inbox_event v JOIN source s ON s.id = v.source_id`)
	if err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	there, effects := map[string]bool{}, map[string]bool{}
	for _, key := range keys {
		there[key] = true
	}
	for _, h := range c.histories {
		effects[h.source+"/"+h.event+"/"+h.route] = true
	}
	c.violate(missingEffects(c.deliveries.events, there, effects)...)
	return nil
}

// missingEffects compares the acknowledged events with the recorded events and effects.
func missingEffects(events map[string]*event, there, effects map[string]bool) (out []violation) {
	for _, key := range sortedKeys(events) {
		e := events[key]
		if !e.acknowledged {
			continue
		}
		if !there[key] {
			out = append(out, violation{Kind: lost, Detail: key + " was acknowledged and is not there"})
			continue
		}
		for _, route := range expectedRoutes(e.source, e.payloads[0].Type) {
			if !effects[key+"/"+route] {
				out = append(out, violation{Kind: lost, Detail: key + " was acknowledged and never had an effect for " + route})
			}
		}
	}
	return out
}
