package read

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// DeadGroup is dead letters that look like one fault.
type DeadGroup struct {
	Tally

	Source string `json:"source"`
	Route  string `json:"route,omitempty"`
	Target string `json:"target,omitempty"`

	// Reason is why the last attempt failed, if that is known, else why the effect is
	// dead.
	Reason string `json:"reason"`
	Code   string `json:"code,omitempty"`
}

// The groups of one window. Ids sort as text as they do as bytes, and text has a maximum.
const (
	groupDead = `
SELECT count(*), false, min(died_at), max(died_at), max(id::text)::uuid, source, route, target, reason, code
FROM (
    SELECT e.id, s.name AS source, r.name AS route, r.target, ` + lastFailure + ` AS reason, coalesce(e.last_code, '') AS code,
        coalesce(t.finished_at, v.received_at) AS died_at
    FROM (SELECT e.* FROM effect e WHERE e.state = 'dead'`
	groupDeadEvents = ` ORDER BY e.id DESC OFFSET 0) e
    JOIN route r ON r.id = e.route_id
    JOIN inbox_event v ON v.id = e.event_id
    JOIN source s ON s.id = v.source_id
    LEFT JOIN LATERAL (
        SELECT t.finished_at, t.reason
        FROM effect_attempt t
        WHERE t.effect_id = e.id AND t.version = e.version
        ORDER BY t.attempt DESC
        LIMIT 1) t ON true
    UNION ALL
    SELECT v.id, s.name, '', '', v.admission, '', v.received_at
    FROM (SELECT v.* FROM inbox_event v WHERE `
	groupDeadBy = ` ORDER BY v.id DESC OFFSET 0) v
    JOIN source s ON s.id = v.source_id) d
GROUP BY source, route, target, reason, code`
)

// DeadGroups sums dead letters up by source, route, reason and the target's code: see [groupsOf].
func (l *Lister) DeadGroups(ctx context.Context, f DeadFilter) (Page[DeadGroup], error) {
	effects, events := l.deadPredicates(&f)
	type key struct{ source, route, target, reason, code string }
	page, err := groupsOf(ctx, l, l.edgeOfDead(idSince(f.Since)), func(g *DeadGroup) any { return key{g.Source, g.Route, g.Target, g.Reason, g.Code} },
		func(ctx context.Context, from, to inbox.ID) (*row.Statement, error) {
			if err := l.checkText(ctx, &f, from, to); err != nil {
				return nil, err
			}
			s := new(row.Statement)
			s.Add(groupDead).And(effectsBetween(to, from)).And(effects)
			s.Add(groupDeadEvents).Add(row.DeadEvent).And(eventsBetween(to, from)).And(events).Add(groupDeadBy)
			return s, nil
		})
	if err != nil {
		return page, fmt.Errorf("grouping dead letters: %w", err)
	}
	return page, nil
}
