package read

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// UnknownFilter narrows the effects whose outcome is unknown (state indeterminate). A zero field
// does not narrow.
type UnknownFilter struct {
	Source string
	// Type is the event's type, exact.
	Type   string
	Route  string
	Target string
	// Tenant is the event's: see [EventFilter].
	Tenant string
	// Since and Until are the earliest receipt of the event and the end of the receipts.
	Since, Until time.Time
}

// IsZero reports whether the filter takes everything.
func (f UnknownFilter) IsZero() bool { return f == UnknownFilter{} }

// predicates returns the conditions of the filter on an effect e.
func (f UnknownFilter) predicates(tenant string) row.Predicates {
	d := DeadFilter{Source: f.Source, Type: f.Type, Route: f.Route, Target: f.Target, Tenant: f.Tenant, Since: f.Since, Until: f.Until}
	p := d.EffectPredicates()
	p.AddIf(tenant != "", effectTenant, tenant)
	return p
}

// Unknown is an effect whose outcome is unknown, as it was found: at a version, and at a
// revision, which any decision about it moves.
type Unknown struct {
	Effect            inbox.ID
	Version, Revision int
}

// Unknown returns the effects whose outcome is unknown, oldest first and at most limit of them.
// effect_indeterminate_idx contains these effects and no others, and is read for each route separately.
func (l *Lister) Unknown(ctx context.Context, f UnknownFilter, limit int) ([]Unknown, error) {
	var s row.Statement
	s.Add(`SELECT e.id, e.version, e.revision FROM route o CROSS JOIN LATERAL (SELECT e.* FROM effect e WHERE e.route_id = o.id AND e.state = 'indeterminate'`)
	s.And(f.predicates(l.tenant)).Add(` ORDER BY e.route_id, e.id LIMIT ?) e ORDER BY e.id LIMIT ?`, limit, limit)
	out, err := collect(ctx, l, &s, pgx.RowToStructByPos[Unknown])
	if err != nil {
		return nil, fmt.Errorf("finding unknown outcomes: %w", err)
	}
	return out, nil
}

// UnknownOf returns those of the effects whose outcome is unknown, in the order of their ids. tenant, if it is not empty, is the tenant of
// their events.
func (l *Lister) UnknownOf(ctx context.Context, ids []inbox.ID, tenant string) ([]Unknown, error) {
	var s row.Statement
	p := UnknownFilter{Tenant: tenant}.predicates(l.tenant)
	s.Add(`SELECT e.id, e.version, e.revision FROM (SELECT e.* FROM effect e WHERE e.id = ANY (?::uuid[]) AND e.state || '' = 'indeterminate' OFFSET 0) e`, ids)
	s.Where(p).Add(` ORDER BY e.id`)
	out, err := collect(ctx, l, &s, pgx.RowToStructByPos[Unknown])
	if err != nil {
		return nil, fmt.Errorf("finding unknown outcomes by their ids: %w", err)
	}
	return out, nil
}

// EffectRows returns the rows of some effects, newest first.
func (l *Lister) EffectRows(ctx context.Context, ids []inbox.ID) ([]EffectRow, error) {
	rows, err := l.readEffects(ctx, row.Is(`(SELECT e.* FROM effect e WHERE e.id = ANY (?::uuid[]) OFFSET 0) e`, ids), nil, len(ids))
	if err != nil {
		return nil, fmt.Errorf("reading effects by their ids: %w", err)
	}
	return rows, nil
}

// UnknownGroup counts the unknown outcomes of one route at one target. Its Count is at most [MaxCount].
type UnknownGroup struct {
	Tally

	Source string `json:"source"`
	Route  string `json:"route"`
	Target string `json:"target"`
}

// The groups of one window, through the index of routes.
const (
	groupUnknown = selectTally + `s.name, r.name, r.target
FROM route r
JOIN source s ON s.id = r.source_id
CROSS JOIN LATERAL (
    SELECT count(*) AS count, max(e.id::text)::uuid AS example, min(e.at) AS first, max(e.at) AS last
    FROM (
        SELECT e.id, coalesce(e.send_started_at, (SELECT v.received_at FROM inbox_event v WHERE v.id = e.event_id)) AS at
        FROM effect e
        WHERE e.route_id = r.id AND e.state = 'indeterminate'`
	groupUnknownBy = `
        ORDER BY e.route_id DESC, e.id DESC OFFSET 0) e) g
WHERE g.count > 0`
)

// UnknownGroups counts unknown outcomes by source, route and target: see [groupsOf].
func (l *Lister) UnknownGroups(ctx context.Context, f UnknownFilter) (page Page[UnknownGroup], err error) {
	narrow := f.predicates(l.tenant)
	page, err = groupsOf(ctx, l, l.edgeOfUnknown, func(g *UnknownGroup) any { return [3]string{g.Source, g.Route, g.Target} },
		func(_ context.Context, from, to inbox.ID) (*row.Statement, error) {
			s := new(row.Statement)
			return s.Add(groupUnknown).And(effectsBetween(to, from)).And(narrow).Add(groupUnknownBy), nil
		})
	if err != nil {
		return page, fmt.Errorf("grouping unknown outcomes: %w", err)
	}
	for i := range page.Data {
		g := &page.Data[i]
		g.Count, g.More = min(g.Count, MaxCount), g.More || g.Count > MaxCount
	}
	return page, nil
}
