package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/trials/rig"
)

// standing is an effect as the database has it in the end.
type standing struct {
	id, state, reason string
	attempts, done    int
	tried             string // the attempts, for people
	blocked           bool   // held, and by something
}

const readStandings = `
SELECT e.id::text, e.state, coalesce(e.reason, ''),
    (SELECT count(*) FROM effect_attempt a WHERE a.effect_id = e.id),
    (SELECT count(*) FROM effect_attempt a WHERE a.effect_id = e.id AND a.outcome = 'done'),
    NOT (` + heldByNothing + `),
    coalesce((SELECT string_agg(format('%s.%s %s from %s to %s: %s %s', a.version, a.attempt, a.trigger, a.started_at, a.finished_at, a.outcome, a.reason), '; ' ORDER BY a.started_at)
        FROM effect_attempt a WHERE a.effect_id = e.id), '')
FROM effect e LEFT JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash`

// books compares effects, their attempts and what was sent.
func (c *campaign) books(ctx context.Context) error {
	rows, err := c.db.Query(ctx, readStandings)
	if err != nil {
		return fmt.Errorf("reading the books: %w", err)
	}
	states, reasons := map[string]int{}, map[string]int{}
	var s standing
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
		c.violate(balance(h, &s, c.kills > 0)...)
		return nil
	})
	c.final["effects"], c.final["reasons"] = states, reasons
	if err != nil {
		return fmt.Errorf("reading the books: %w", err)
	}
	return nil
}

// balance compares one effect's end with what was sent and what people decided.
func balance(h *history, s *standing, kills bool) (out []violation) {
	add := func(kind rig.Kind, format string, args ...any) {
		out = append(out, rig.NewViolation(kind, "%s is %s %s: %s", h.about(), s.state, s.reason, fmt.Sprintf(format, args...)))
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
		return slices.ContainsFunc(h.endings, func(e ending) bool { return e.how == how && e.by != byDatabase })
	}
	if len(h.requests) > s.attempts {
		add(unbalanced, "%d requests were sent and it has %d attempts: %s%s", len(h.requests), s.attempts, s.tried, h.story())
	}
	if s.done > succeeded {
		add(unbalanced, "%d attempts say done, and %d requests were answered with success", s.done, succeeded)
	}
	if e := h.last(); e != nil && !stands(e.how, inbox.EffectState(s.state)) && !h.permitted(e, time.Now()) {
		add(overridden, "it was %s by %s, and nobody asked for it afterwards%s", e.how, e.by, h.story())
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
		explained = byPerson(discarded) || s.reason == string(inbox.ReasonPruned) && h.source == "brief"
	case inbox.EffectSuperseded:
		explained = inOrder(h.route) || h.route == "turns"
	case inbox.EffectDuplicate:
		explained = h.route == "receipt"
	case inbox.EffectDead:
		switch inbox.Reason(s.reason) {
		case inbox.ReasonExhausted, inbox.ReasonStatus410, inbox.ReasonStatus4xx:
			explained = answered(func(r *request) bool { return r.answer != http.StatusOK }) > 0 || kills
		case inbox.ReasonBodyGone:
			explained = byPerson(erased)
		default:
			explained = false
		}
	case inbox.EffectIndeterminate:
		switch inbox.Reason(s.reason) {
		case inbox.ReasonStatus503:
			explained = answered(func(r *request) bool { return r.answer == http.StatusServiceUnavailable }) > 0
		case inbox.ReasonStatus5xx:
			explained = answered(func(r *request) bool { return r.answer == http.StatusInternalServerError }) > 0
		case inbox.ReasonTimeout, inbox.ReasonConnection, inbox.ReasonReply:
			explained = answered(func(r *request) bool { return r.answer == 0 }) > 0
		case inbox.ReasonLeaseExpired, inbox.ReasonStopped:
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

// stands reports whether a state is that of what a person decided.
func stands(how string, state inbox.EffectState) bool {
	switch how {
	case discarded:
		return state == inbox.EffectSkipped
	case resolved:
		return state == inbox.EffectDone
	}
	return state.Settled() || state.AtRest()
}

// acknowledged looks for every event that was acknowledged, and for the effects that it
// has to have had.
func (c *campaign) acknowledged(ctx context.Context) error {
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
	c.violate(missing(c.deliveries.events, there, effects)...)
	return nil
}

// missing compares what was acknowledged with what is there.
func missing(events map[string]*event, there, effects map[string]bool) (out []violation) {
	for _, key := range sorted(events) {
		e := events[key]
		if !e.acknowledged {
			continue
		}
		if !there[key] {
			out = append(out, violation{Kind: lost, Detail: key + " was acknowledged and is not there"})
			continue
		}
		for _, route := range expected(e.source, e.sent[0].Type) {
			if !effects[key+"/"+route] {
				out = append(out, violation{Kind: lost, Detail: key + " was acknowledged and never had an effect for " + route})
			}
		}
	}
	return out
}
