package read

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// EffectGroup counts the effects of one route at one target that are in one state for one reason. First and Last are when its
// effects were recorded.
type EffectGroup struct {
	Tally

	Source string `json:"source"`
	Route  string `json:"route"`
	Target string `json:"target"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// The groups of one window. Ids sort as text as they do as bytes, and text has a maximum. The time in an id is when the effect was
// recorded.
const (
	groupEffects = `
SELECT count(*), false, min(v.received_at), max(v.received_at), max(e.id::text)::uuid, s.name, r.name, r.target, e.state, coalesce(e.reason, '')
FROM (SELECT e.* FROM effect e`
	groupEffectsBy = ` ORDER BY e.id DESC OFFSET 0) e
JOIN inbox_event v ON v.id = e.event_id
JOIN route r ON r.id = e.route_id
JOIN source s ON s.id = r.source_id
GROUP BY s.name, r.name, r.target, e.state, coalesce(e.reason, '')`
)

// EffectGroups sums effects up by source, route, target, state and reason: see [groupsOf]. It does not narrow them by the filter's
// EventID and Key.
func (l *Lister) EffectGroups(ctx context.Context, f EffectFilter) (Page[EffectGroup], error) {
	narrow := append(l.effectPredicates(&f), effectsBetween(inbox.ID{}, idSince(f.Until))...)
	type key struct{ source, route, target, state, reason string }
	page, err := groupsOf(ctx, l, func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
		var s row.Statement
		s.Add(`SELECT e.id FROM effect e`).Where(effectsBetween(idSince(f.Since), from)).Add(edgeOfEffects, rows)
		return l.edge(ctx, &s)
	}, func(g *EffectGroup) any { return key{g.Source, g.Route, g.Target, g.State, g.Reason} },
		func(_ context.Context, from, to inbox.ID) (*row.Statement, error) {
			s := new(row.Statement)
			return s.Add(groupEffects).Where(append(effectsBetween(later(idSince(f.Since), to), from), narrow...)).Add(groupEffectsBy), nil
		})
	if err != nil {
		return page, fmt.Errorf("grouping effects: %w", err)
	}
	return page, nil
}
