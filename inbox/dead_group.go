package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// DeadGroup is dead letters that look like one fault.
type DeadGroup struct {
	Count  int    `json:"count"`
	Source string `json:"source"`
	Route  string `json:"route,omitempty"`
	Target string `json:"target,omitempty"`
	// Reason is why the last attempt failed, if that is known, else why the effect is
	// dead.
	Reason string `json:"reason"`
	Code   string `json:"code,omitempty"`
	// First and Last are when the first and the last of them died.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Example is one of them, the newest.
	Example ID `json:"example"`
}

// maxGroups bounds the groups: sources, routes and reasons are few, codes are
// what targets choose.
const maxGroups = 1000

// Ids sort as text as they do as bytes, and text has a maximum.
const groupDead = `
SELECT count(*), source, route, target, reason, code, min(died_at), max(died_at), max(id::text)::uuid
FROM (
    SELECT e.id, s.name AS source, r.name AS route, r.target, ` + lastFailure + ` AS reason, coalesce(e.last_code, '') AS code,
        coalesce(t.finished_at, v.received_at) AS died_at
    FROM effect e
    JOIN route r ON r.id = e.route_id
    JOIN inbox_event v ON v.id = e.event_id
    JOIN source s ON s.id = v.source_id
    LEFT JOIN LATERAL (
        SELECT t.finished_at, t.reason
        FROM effect_attempt t
        WHERE t.effect_id = e.id AND t.version = e.version
        ORDER BY t.attempt DESC
        LIMIT 1) t ON true
    WHERE e.state = 'dead' AND ` + NarrowEffects + `
    UNION ALL
    SELECT v.id, s.name, '', '', v.admission, '', v.received_at
    FROM inbox_event v
    JOIN source s ON s.id = v.source_id
    WHERE ` + narrowEvents + `) d
GROUP BY source, route, target, reason, code
ORDER BY count(*) DESC, max(id::text) DESC
LIMIT $12`

// DeadGroups sums dead letters up by source, route, reason and the target's code,
// the largest group first.
func (l *Lister) DeadGroups(ctx context.Context, f DeadFilter) ([]DeadGroup, error) {
	if err := f.CheckText(ctx, l.pool); err != nil {
		return nil, err
	}
	rows, err := l.pool.Query(ctx, groupDead, append(f.Args(), maxGroups)...)
	if err != nil {
		return nil, fmt.Errorf("grouping dead letters: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DeadGroup])
	if err != nil {
		return nil, fmt.Errorf("grouping dead letters: %w", err)
	}
	return out, nil
}
