package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The kinds of violation that only this campaign can find. The others are the names of invariants.
const (
	passedOver rig.Kind = "passed over" // it was not to be skipped
	deadlocked rig.Kind = "deadlocked"
	forgotten  rig.Kind = "forgotten" // held although it could have run
	heldUp     rig.Kind = "held up"   // one stream held up the others
	unlocked   rig.Kind = "unlocked"  // an effect of a locked stream was done
	displaced  rig.Kind = "displaced" // far behind its place in the queue
	ahead      rig.Kind = "ahead"     // of the clock that was set right
	vacuous    rig.Kind = "vacuous"   // the variant shows nothing
)

func (r *result) violate(kind rig.Kind, format string, args ...any) {
	r.violations = append(r.violations, rig.NewViolation(kind, format, args...))
}

const countAttempts = `SELECT count(*) FROM effect_attempt WHERE outcome <> 'skipped'`

// readLate finds the events whose numbers were received so long after a higher number of their key that the route may have given them
// up. The patience begins when the higher number is found ahead of a gap, and ends when the missing one is committed, so one second of
// it is left for the two.
const readLate = `
SELECT event_id FROM (
    SELECT event_id, received_at, min(received_at) OVER (PARTITION BY key ORDER BY number ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS ahead
    FROM (SELECT event_id, split_part(event_id, '_', 2) AS key, split_part(event_id, '_', 3)::bigint AS number, received_at FROM inbox_event) AS e) AS n
WHERE received_at > ahead + $1::text::interval - interval '1 second'`

// lateEvents returns the events that a route may have given up, because on a busy machine the senders took longer than its patience
// to deliver them.
func (c *campaign) lateEvents(ctx context.Context) ([]string, error) {
	if !c.variant.givesUp() {
		return nil, nil
	}
	rows, err := c.DB.Query(ctx, readLate, c.variant.patience)
	if err != nil {
		return nil, fmt.Errorf("reading which numbers came late: %w", err)
	}
	late, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading which numbers came late: %w", err)
	}
	return late, nil
}

// check compares what was applied with what was delivered.
func (c *campaign) check(ctx context.Context, r *result) error {
	e, err := c.evidence(ctx)
	if err != nil {
		return err
	}
	r.violations = append(r.violations, invariant.Violations(invariant.Check(e))...)
	r.applied = len(e.Applied)
	late, err := c.lateEvents(ctx)
	if err != nil {
		return err
	}
	if len(late) > 0 {
		r.fault += fmt.Sprintf(", %d numbers delivered after the route's patience", len(late))
	}
	for i := range e.Effects {
		effect := &e.Effects[i]
		switch state := inbox.EffectState(effect.State); {
		case effect.Filtered, state == inbox.EffectDone:
		case effect.Reason == string(reasons.Late) && slices.Contains(late, effect.Event):
		case state == inbox.EffectSuperseded && c.variant.latest && effect.Route == "it":
		case state == inbox.EffectSkipped && strings.HasPrefix(effect.Event, "evt_"+blockedPrefix) && strings.HasSuffix(effect.Event, "_1"): // an operator gave it up
		case state == inbox.EffectSuperseded, state == inbox.EffectSkipped, state == inbox.EffectDuplicate:
			r.violate(passedOver, "%s is %s %s", effect.Event, state, effect.Reason)
		default:
			r.stuck++
		}
	}
	if err := c.DB.QueryRow(ctx, countAttempts).Scan(&r.attempts); err != nil {
		return fmt.Errorf("counting attempts: %w", err)
	}
	if r.deadlocks > 0 {
		r.violate(deadlocked, "%d times", r.deadlocks)
	}
	if r.heldRunnable > 0 {
		r.violate(forgotten, "%g held effects were found runnable", r.heldRunnable)
	}
	switch {
	case c.variant.arrival:
		return c.checkClocks(ctx, r)
	case c.variant.fair, c.variant.latest:
		return c.checkPlaces(ctx, r)
	case c.variant.jump:
		return c.checkJump(ctx, r)
	}
	return nil
}

// evidence reads the tables and the target outside.
func (c *campaign) evidence(ctx context.Context) (e *invariant.Evidence, err error) {
	e = &invariant.Evidence{Sent: c.sent.Events(), Routes: []invariant.Route{
		{Name: "it", Kind: invariant.Sequence, Type: "take", GivesUp: c.variant.givesUp()}, {Name: "plain", Kind: invariant.Table, Type: "plain"},
	}}
	if c.variant.latest || c.variant.arrival { // no number has to wait for another
		e.Routes[0].Kind = invariant.Latest
	}
	if e.Stored, err = invariant.Read(ctx, c.DB); err == nil && c.external != nil {
		e.Applied, err = c.external.read()
	}
	return e, err
}

// heldRunnable sums how many held effects the living workers have found that could have run.
func (c *campaign) heldRunnable(ctx context.Context) (float64, error) {
	sum := 0.0
	for _, worker := range c.workers {
		metrics, err := worker.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		sum += metrics["oncegate_order_held_runnable_total"]
	}
	return sum, nil
}
