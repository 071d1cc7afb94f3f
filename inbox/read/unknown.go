package read

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
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

// UnknownGroup counts the unknown outcomes of one route at one target.
type UnknownGroup struct {
	// Count is at most [MaxCount]; More says that there are others.
	Count  int    `json:"count"`
	More   bool   `json:"more,omitempty"`
	Source string `json:"source"`
	Route  string `json:"route"`
	Target string `json:"target"`
	// First and Last are when the first and the last of them may have been sent.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Example is one of them, the newest.
	Example inbox.ID `json:"example"`
}

// The groups of one window, through the index of routes.
const (
	groupUnknown = `
SELECT g.count, false, s.name, r.name, r.target, g.first, g.last, g.example
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

// UnknownGroups counts unknown outcomes by source, route and target, the largest group first. A group has
// what was found within the budget of a list: if SearchedTo is set, older ones are not counted. There is
// no next page.
func (l *Lister) UnknownGroups(ctx context.Context, f UnknownFilter) (page Page[UnknownGroup], err error) {
	narrow := f.predicates(l.tenant)
	groups := map[[3]string]*UnknownGroup{}
	_, searched, cut, err := searchList(ctx, l.search(), inbox.ID{}, l.edgeOfUnknown, func(ctx context.Context, from, to inbox.ID) (bool, error) {
		var s row.Statement
		s.Add(groupUnknown).And(effectsBetween(to, from)).And(narrow).Add(groupUnknownBy)
		found, err := collect(ctx, l, &s, pgx.RowToStructByPos[UnknownGroup])
		for i := range found {
			g := &found[i]
			k := [3]string{g.Source, g.Route, g.Target}
			if groups[k] == nil {
				groups[k] = g
			} else {
				groups[k].add(g)
			}
		}
		return false, err
	})
	if err != nil {
		return page, fmt.Errorf("grouping unknown outcomes: %w", err)
	}
	page.Data = make([]UnknownGroup, 0, len(groups))
	for _, g := range groups {
		if g.Count > MaxCount {
			g.Count, g.More = MaxCount, true
		}
		page.Data = append(page.Data, *g)
	}
	slices.SortFunc(page.Data, func(a, b UnknownGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), bytes.Compare(b.Example[:], a.Example[:]))
	})
	page.Data = page.Data[:min(len(page.Data), maxGroups)]
	if cut {
		page.SearchedTo = &searched
	}
	return page, nil
}

// add adds the counts of an older window for the same group.
func (g *UnknownGroup) add(older *UnknownGroup) {
	g.Count += older.Count
	if older.First.Before(g.First) {
		g.First = older.First
	}
	if older.Last.After(g.Last) {
		g.Last = older.Last
	}
}
