package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
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

func (f UnknownFilter) args() []any {
	d := DeadFilter{Source: f.Source, Type: f.Type, Route: f.Route, Target: f.Target, Tenant: f.Tenant, Since: f.Since, Until: f.Until}
	return d.Args()
}

// Unknown is an effect whose outcome is unknown, as it was found: at a version, and at a
// revision, which any decision about it moves.
type Unknown struct {
	Effect            ID
	Version, Revision int
}

// effect_indeterminate_idx holds these effects and no others.
const findUnknown = `
SELECT e.id, e.version, e.revision
FROM effect e
JOIN route r ON r.id = e.route_id
JOIN inbox_event v ON v.id = e.event_id
JOIN source s ON s.id = v.source_id
WHERE e.state = 'indeterminate' AND ` + NarrowEffects + `
ORDER BY e.id
LIMIT $12`

// Unknown gives the effects whose outcome is unknown, oldest first and at most limit of them.
func (l *Lister) Unknown(ctx context.Context, f UnknownFilter, limit int) ([]Unknown, error) {
	rows, err := l.pool.Query(ctx, findUnknown, append(f.args(), limit)...)
	if err != nil {
		return nil, fmt.Errorf("finding unknown outcomes: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Unknown])
	if err != nil {
		return nil, fmt.Errorf("finding unknown outcomes: %w", err)
	}
	return out, nil
}

// UnknownGroup counts the unknown outcomes of one route at one target.
type UnknownGroup struct {
	Count  int    `json:"count"`
	Source string `json:"source"`
	Route  string `json:"route"`
	Target string `json:"target"`
	// First and Last are when the first and the last of them may have been sent.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Example is one of them, the newest.
	Example ID `json:"example"`
}

const groupUnknown = `
SELECT count(*), s.name, r.name, r.target, min(coalesce(e.send_started_at, v.received_at)),
    max(coalesce(e.send_started_at, v.received_at)), max(e.id::text)::uuid
FROM effect e
JOIN route r ON r.id = e.route_id
JOIN inbox_event v ON v.id = e.event_id
JOIN source s ON s.id = v.source_id
WHERE e.state = 'indeterminate' AND ` + NarrowEffects + `
GROUP BY s.name, r.name, r.target
ORDER BY count(*) DESC, max(e.id::text) DESC
LIMIT $12`

// UnknownGroups counts unknown outcomes by source, route and target, the largest group first.
func (l *Lister) UnknownGroups(ctx context.Context, f UnknownFilter) ([]UnknownGroup, error) {
	rows, err := l.pool.Query(ctx, groupUnknown, append(f.args(), maxGroups)...)
	if err != nil {
		return nil, fmt.Errorf("grouping unknown outcomes: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[UnknownGroup])
	if err != nil {
		return nil, fmt.Errorf("grouping unknown outcomes: %w", err)
	}
	return out, nil
}
