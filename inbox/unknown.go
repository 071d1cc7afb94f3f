package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

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

// predicates are what the filter asks of an effect e.
func (f UnknownFilter) predicates(tenant string) row.Predicates {
	d := DeadFilter{Source: f.Source, Type: f.Type, Route: f.Route, Target: f.Target, Tenant: f.Tenant, Since: f.Since, Until: f.Until}
	p := d.EffectPredicates()
	p.AddIf(tenant != "", effectTenant, tenant)
	return p
}

// Unknown is an effect whose outcome is unknown, as it was found: at a version, and at a
// revision, which any decision about it moves.
type Unknown struct {
	Effect            ID
	Version, Revision int
}

// Unknown gives the effects whose outcome is unknown, oldest first and at most limit of them:
// effect_indeterminate_idx holds these effects and no others.
func (l *Lister) Unknown(ctx context.Context, f UnknownFilter, limit int) ([]Unknown, error) {
	var s row.Statement
	s.Add(`SELECT e.id, e.version, e.revision FROM effect e WHERE e.state = 'indeterminate'`).And(f.predicates(l.tenant))
	s.Add(` ORDER BY e.id LIMIT ?`, limit)
	out, err := collect(ctx, l, &s, pgx.RowToStructByPos[Unknown])
	if err != nil {
		return nil, fmt.Errorf("finding unknown outcomes: %w", err)
	}
	return out, nil
}

// UnknownGroup counts the unknown outcomes of one route at one target.
type UnknownGroup struct {
	// Count is at most [MaxCount]; More says that there are others, older than First.
	Count  int    `json:"count"`
	More   bool   `json:"more,omitempty"`
	Source string `json:"source"`
	Route  string `json:"route"`
	Target string `json:"target"`
	// First and Last are when the first and the last of them may have been sent.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Example is one of them, the newest.
	Example ID `json:"example"`
}

// Of each route the newest are looked at, through the index of routes.
const (
	groupUnknown = `
SELECT g.count, g.seen > ?, s.name, r.name, r.target, g.first, g.last, g.example
FROM route r
JOIN source s ON s.id = r.source_id
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE e.taken AND e.n <= ?) AS count, count(*) AS seen, max(e.id::text) FILTER (WHERE e.taken)::uuid AS example,
        min(e.at) FILTER (WHERE e.taken) AS first, max(e.at) FILTER (WHERE e.taken) AS last
    FROM (
        SELECT e.id, e.n, true`
	groupUnknownFrom = ` AS taken,
            coalesce(e.send_started_at, (SELECT v.received_at FROM inbox_event v WHERE v.id = e.event_id)) AS at
        FROM (
            SELECT e.*, row_number() OVER () AS n
            FROM (SELECT e.* FROM effect e WHERE e.route_id = r.id AND e.state = 'indeterminate' ORDER BY e.route_id DESC, e.id DESC LIMIT ?) e) e) e) g
WHERE g.count > 0
ORDER BY g.count DESC, g.example DESC
LIMIT ?`
)

// UnknownGroups counts unknown outcomes by source, route and target, the largest group first.
// There is no next page.
func (l *Lister) UnknownGroups(ctx context.Context, f UnknownFilter) (Page[UnknownGroup], error) {
	var s row.Statement
	s.Add(groupUnknown, MaxCount, MaxCount).And(f.predicates(l.tenant)).Add(groupUnknownFrom, MaxCount+1, maxGroups)
	out, err := collect(ctx, l, &s, pgx.RowToStructByPos[UnknownGroup])
	if err != nil {
		return Page[UnknownGroup]{}, fmt.Errorf("grouping unknown outcomes: %w", err)
	}
	return PageOf(out, maxGroups, func(UnknownGroup) string { return "" }), nil
}
