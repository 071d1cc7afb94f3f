package replay

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// candidate is an effect of the scope in its present state, or its owner if it is a
// duplicate.
type candidate struct {
	planItem
	unknown  time.Time
	now      time.Time
	bodyGone bool
	listed   bool
	again    bool // a later call repeats its operation
	shadow   bool // it was recorded in shadow mode
}

// A duplicate is replaced by its owner. Each body is looked up by the primary key of its
// partition; an item of a list needs none, because it was rendered when it was written. A
// plan takes each effect once. LIMIT 1 makes PostgreSQL look up each effect among the plan's
// items; otherwise each page would read the whole plan.
var readCandidates = `
SELECT a.id, x.id, x.event_id, e.event_id, coalesce(x.route_id, e.route_id), coalesce(x.version, 0), coalesce(x.state, ''),
    coalesce(x.reason, ''), coalesce(x.revision, 0), x.unknown_since, now(),
    NOT (EXISTS (SELECT FROM inbox_body b WHERE b.id = v.body_id AND b.class = v.class) OR ` + row.Archived + `) AND (x.item = 0 OR x.rendered IS NULL),
    l.listed IS NOT NULL, x.id IS NOT NULL AND ` + row.CalledAgain + `, coalesce(x.shadow, false)
FROM unnest($1::uuid[]) WITH ORDINALITY AS a (id, place)
JOIN effect e ON e.id = a.id
LEFT JOIN effect x ON x.id = coalesce(e.duplicate_of, e.id)
LEFT JOIN inbox_event v ON v.id = x.event_id
LEFT JOIN LATERAL (
    SELECT true AS listed
    FROM replay_item i
    WHERE i.effect_id = x.id AND i.replay_id = $2 AND i.left_out IS NULL
    LIMIT 1) l ON true
ORDER BY a.place`

func (p *plan) candidates(ctx context.Context, ids []inbox.ID) ([]candidate, error) {
	rows, err := p.pool.Query(ctx, readCandidates, ids, p.id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c candidate, err error) {
		var asked, event inbox.ID
		var unknown pgtype.Timestamptz
		var gone *bool
		err = row.Scan(&asked, &c.effect, &c.event, &event, &c.route, &c.version, &c.state, &c.reason, &c.revision, &unknown, &c.now, &gone, &c.listed, &c.again, &c.shadow)
		if c.effect != asked {
			c.asked = asked
		}
		if c.effect.IsZero() {
			c.event = event
		}
		if unknown.Valid {
			c.unknown = unknown.Time
		}
		c.bodyGone = gone == nil || *gone
		return c, err
	})
}

// effects plans one page of effects.
func (p *plan) effects(ctx context.Context, ids []inbox.ID) error {
	found, err := p.candidates(ctx, ids)
	if err != nil {
		return err
	}
	taken := map[inbox.ID]bool{}
	items := make([]planItem, len(found))
	places := map[inbox.ID]int{}
	var events, effects []inbox.ID
	for i := range found {
		c := &found[i]
		c.listed = c.listed || taken[c.effect] || p.listed[c.effect]
		c.action, c.leftOut = p.decide(c)
		if c.leftOut == LeftOutDone {
			c.verdict = VerdictDone
		}
		items[i] = c.planItem
		if c.action != ActionNone {
			taken[c.effect] = true
			places[c.effect] = i
			events, effects = append(events, c.event), append(effects, c.effect)
		}
	}
	if p.judge != nil && len(effects) > 0 {
		if err := p.judgeEffects(ctx, items, places, events, effects); err != nil {
			return err
		}
	}
	p.listed = taken
	return p.write(ctx, items)
}

// decide returns what a run would do with an effect, before the judge is asked.
func (p *plan) decide(c *candidate) (Action, LeftOut) {
	o := &p.ask.Options
	action := ActionReplay
	if o.NewKey {
		action = ActionNewKey
	}
	switch {
	case c.effect.IsZero():
		return ActionNone, LeftOutOwnerGone
	case c.listed:
		return ActionNone, LeftOutListed
	}
	switch c.state {
	case inbox.EffectDead:
	case inbox.EffectIndeterminate:
		if !o.IncludeIndeterminate {
			return ActionNone, LeftOutIndeterminate
		}
	case inbox.EffectDone:
		if !o.IncludeDone {
			return ActionNone, LeftOutDone
		}
	case inbox.EffectSkipped:
		switch {
		case o.includesSkipped(c.reason):
		case c.reason.IsShadow():
			return ActionNone, LeftOutShadow
		default:
			return ActionNone, LeftOutSettled
		}
	case inbox.EffectSuperseded, inbox.EffectDuplicate:
		return ActionNone, LeftOutSettled
	case inbox.EffectPending, inbox.EffectClaimed, inbox.EffectRetry, inbox.EffectHeld:
		return ActionNone, LeftOutInProgress
	}
	if c.again && !o.IncludeCalledAgain {
		return ActionNone, LeftOutCalledAgain
	}
	if c.shadow && o.CarryOutShadow {
		if action = ActionCarryOut; p.routes[c.route].shadow {
			return ActionNone, LeftOutShadow
		}
	}
	if c.bodyGone {
		return ActionNone, LeftOutBodyGone
	}
	if route, known := p.store.Route(c.route); known && action == ActionReplay && !o.IncludeIndeterminate && route.Forgotten(c.unknown, c.now) {
		return ActionNone, LeftOutKeyWindow
	}
	return action, ""
}

// judgeEffects adds the judge's verdicts and diffs, and leaves out effects that cannot be sent.
func (p *plan) judgeEffects(ctx context.Context, items []planItem, places map[inbox.ID]int, events, effects []inbox.ID) error {
	return p.eachRecorded(ctx, events, effects, func(_ *RecordedEvent, judgements []Judgement) {
		for _, j := range judgements {
			i, ok := places[j.Effect]
			if !ok || j.Effect.IsZero() {
				continue
			}
			it := &items[i]
			if it.diff = j.Diff; j.Verdict == VerdictDone {
				continue // the plan still includes the effect
			}
			it.verdict = j.Verdict
			switch j.Verdict {
			case VerdictNoRoute:
				it.action, it.leftOut = ActionNone, LeftOutNoRoute
			case VerdictCannotRender:
				it.action, it.leftOut = ActionNone, LeftOutCannotRender
			case VerdictDone, VerdictSame, VerdictOtherTarget, VerdictOtherBody, VerdictOtherKey, VerdictNewRoute:
			}
		}
	})
}
