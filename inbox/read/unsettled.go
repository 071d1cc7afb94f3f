package read

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// MaxUnsettledSeen is how many effects [Lister.Unsettled] reads: of each route for held, dead and indeterminate ones,
// and of all routes together for due ones.
const MaxUnsettledSeen = 10_000

// UnsettledFilter narrows what [Lister.Unsettled] reads; a zero field does not.
type UnsettledFilter struct {
	// Source and Route are names.
	Source, Route string
}

// UnsettledRoute says how many effects of a route are held, and how old its oldest effect is that is not settled for good.
type UnsettledRoute struct {
	Source string `json:"source"`
	Route  string `json:"route"`

	// Held is how many effects wait for their predecessor or for a person, at most [MaxUnsettledSeen]. HeldMore says that
	// there may be more.
	Held     int64 `json:"held"`
	HeldMore bool  `json:"held_more,omitempty"`

	// Oldest is when the oldest effect was recorded that is pending, claimed, held, dead or indeterminate, of those that were
	// looked at; nil without one.
	Oldest *time.Time `json:"oldest,omitempty"`
}

// Unsettled is the result of [Lister.Unsettled].
type Unsettled struct {
	// Routes are those with effects that are not settled, by source and route.
	Routes []UnsettledRoute `json:"routes"`

	// More says that not all effects were read: others may be older, and belong to routes that are not listed.
	More bool `json:"more,omitempty"`
}

// Held, dead and indeterminate effects are read route by route from the beginning of their partial index, which returns
// the oldest first; only the index is read, unless a tenant is asked for. No index returns the oldest of the due
// effects, so the statement reads those that are due first, as the gauges do. $1 is how many effects are read and one
// more, $2 for how long. first_due names $2 only so that it is numbered before the tenant.
const (
	dueOfUnsettled = `
WITH due AS MATERIALIZED (
    SELECT e.route_id, e.id, e.event_id FROM effect e WHERE e.next_at IS NOT NULL ORDER BY e.next_at, e.id LIMIT ?::bigint),
first_due AS MATERIALIZED (
    SELECT e.route_id, min(e.id::text)::uuid AS id FROM due e WHERE now() + ?::interval IS NOT NULL`

	heldOfUnsettled = `
    GROUP BY e.route_id)
SELECT s.name, r.name, held.n, held.seen >= $1 OR held.late, least(oldest.held, oldest.rest, due.id),
    (SELECT count(*) FROM due) >= $1 OR clock_timestamp() > now() + $2 OR held.seen >= $1 AND oldest.held IS NULL
        OR CASE WHEN oldest.rest IS NULL THEN (
            SELECT true FROM effect e WHERE e.route_id = r.id AND e.state IN ('dead', 'indeterminate') ORDER BY e.route_id, e.id OFFSET $1 - 1 LIMIT 1) IS NOT NULL ELSE false END
FROM route r
JOIN source s ON s.id = r.source_id
LEFT JOIN first_due due ON due.route_id = r.id
CROSS JOIN LATERAL (
    SELECT count(*) AS seen, clock_timestamp() > now() + $2 AS late, count(*) FILTER (WHERE true`

	oldestHeldOfUnsettled = `) AS n
    FROM (
        SELECT e.event_id FROM effect e WHERE e.route_id = r.id AND e.state = 'held'
        ORDER BY e.route_id, e.id LIMIT CASE WHEN clock_timestamp() > now() + $2 THEN 0 ELSE $1 END) e) held
CROSS JOIN LATERAL (
    SELECT (
        SELECT e.id FROM (
            SELECT e.id, e.event_id FROM effect e WHERE e.route_id = r.id AND e.state = 'held'
            ORDER BY e.route_id, e.id LIMIT CASE WHEN clock_timestamp() > now() + $2 THEN 0 ELSE $1 END) e
        WHERE true`

	oldestRestOfUnsettled = `
        LIMIT 1) AS held, (
        SELECT e.id FROM (
            SELECT e.id, e.event_id FROM effect e WHERE e.route_id = r.id AND e.state IN ('dead', 'indeterminate')
            ORDER BY e.route_id, e.id LIMIT CASE WHEN clock_timestamp() > now() + $2 THEN 0 ELSE $1 END) e
        WHERE true`

	routesOfUnsettled = `
        LIMIT 1) AS rest) oldest`

	theirsOfUnsettled = `(SELECT coalesce(v.tenant, w.tenant) FROM inbox_event v JOIN source w ON w.id = v.source_id WHERE v.id = e.event_id) = ?`
)

// Unsettled says, route by route, how many effects are held and how old the oldest effect is that is not settled. It takes no
// longer than the budget of a list; if that ends first, More says so.
func (l *Lister) Unsettled(ctx context.Context, f UnsettledFilter) (Unsettled, error) {
	var theirs, in row.Predicates
	theirs.AddIf(l.tenant != "", theirsOfUnsettled, l.tenant)
	in.AddIf(f.Source != "", `s.name = ?`, f.Source)
	in.AddIf(f.Route != "", `r.name = ?`, f.Route)
	var s row.Statement
	s.Add(dueOfUnsettled, MaxUnsettledSeen+1, l.budget/2).And(theirs)
	s.Add(heldOfUnsettled).And(theirs).Add(oldestHeldOfUnsettled).And(theirs).Add(oldestRestOfUnsettled).And(theirs).Add(routesOfUnsettled).Where(in)
	s.Add(` ORDER BY s.name, r.name`)

	out := Unsettled{Routes: []UnsettledRoute{}}
	sql, args := s.SQL()
	err := row.Query(row.LimitTime(ctx, func() time.Duration { return l.budget }), l.pool, sql, args, func(rows pgx.Rows) error {
		var one UnsettledRoute
		var oldest *inbox.ID
		var more bool
		_, err := pgx.ForEachRow(rows, []any{&one.Source, &one.Route, &one.Held, &one.HeldMore, &oldest, &more}, func() error {
			out.More = out.More || more
			if one.Held == 0 && oldest == nil {
				return nil
			}
			found := one
			found.Held = min(one.Held, MaxUnsettledSeen)
			if oldest != nil {
				at := oldest.Time()
				found.Oldest = &at
			}
			out.Routes = append(out.Routes, found)
			return nil
		})
		return err
	})
	switch {
	case row.TimedOut(err):
		return Unsettled{Routes: []UnsettledRoute{}, More: true}, nil
	case err != nil:
		return Unsettled{}, fmt.Errorf("reading what is not settled: %w", err)
	}
	return out, nil
}
