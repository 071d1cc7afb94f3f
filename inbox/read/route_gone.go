package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/pause"
)

// RouteBacklog is a route with the counts of its unsettled effects.
type RouteBacklog struct {
	Source string `json:"source"`
	Route  string `json:"route"`
	Target string `json:"target"`
	// Gone means that neither the latest started server nor any live process has the route.
	Gone bool `json:"gone"`
	// Waiting effects would be carried out by a server that knows the route.
	Waiting int `json:"waiting"`
	// Claimed effects are with a worker, or were when it died.
	Claimed       int `json:"claimed"`
	Dead          int `json:"dead"`
	Indeterminate int `json:"indeterminate"`
	// Oldest is when the oldest of the waiting ones was received.
	Oldest *time.Time `json:"oldest,omitempty"`

	// Paused is why the effects wait: the route's own pause, or the one of its target. It is absent if neither is paused.
	Paused *pause.Pause `json:"paused,omitempty"`
}

// The statement reads the indexes of due, held and resting effects. It does not read settled
// effects, which are the majority.
const listRouteBacklogs = `
WITH unsettled AS (
    SELECT e.route_id, e.state, e.event_id FROM effect e WHERE e.next_at IS NOT NULL
    UNION ALL
    SELECT e.route_id, e.state, e.event_id FROM effect e WHERE e.state = 'held' AND e.next_at IS NULL
    UNION ALL
    SELECT e.route_id, e.state, e.event_id FROM effect e WHERE e.state IN ('dead', 'indeterminate'))
SELECT s.name, r.name, r.target, ` + row.GoneRoute + `,
    count(*) FILTER (WHERE u.state IN ('pending', 'retry', 'held')), count(*) FILTER (WHERE u.state = 'claimed'),
    count(*) FILTER (WHERE u.state = 'dead'), count(*) FILTER (WHERE u.state = 'indeterminate'),
    min(v.received_at) FILTER (WHERE u.state IN ('pending', 'retry', 'held'))
FROM route r
JOIN source s ON s.id = r.source_id
LEFT JOIN unsettled u ON u.route_id = r.id
LEFT JOIN inbox_event v ON v.id = u.event_id AND u.state IN ('pending', 'retry', 'held')
GROUP BY s.name, r.id
ORDER BY s.name, r.name`

// RouteBacklogs lists every route that was ever registered, with the counts of its unsettled
// effects.
func (l *Lister) RouteBacklogs(ctx context.Context) ([]RouteBacklog, error) {
	rows, err := l.pool.Query(ctx, listRouteBacklogs)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r RouteBacklog, err error) {
		err = row.Scan(&r.Source, &r.Route, &r.Target, &r.Gone, &r.Waiting, &r.Claimed, &r.Dead, &r.Indeterminate, &r.Oldest)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	return out, nil
}

const findOfOtherRoute = `
SELECT a.id
FROM unnest($3::uuid[]) AS a (id)
JOIN effect e ON e.id = a.id
JOIN route r ON r.id = e.route_id
JOIN source s ON s.id = r.source_id
WHERE s.name <> $1 OR r.name <> $2
LIMIT 1`

// NotOfRoute returns one of the effects that belongs to another route; the zero ID if there
// is none.
func (l *Lister) NotOfRoute(ctx context.Context, source, route string, ids []inbox.ID) (other inbox.ID, err error) {
	err = l.pool.QueryRow(ctx, findOfOtherRoute, source, route, ids).Scan(&other)
	if errors.Is(err, pgx.ErrNoRows) {
		return inbox.ID{}, nil
	}
	if err != nil {
		return inbox.ID{}, fmt.Errorf("reading the routes of effects: %w", err)
	}
	return other, nil
}
