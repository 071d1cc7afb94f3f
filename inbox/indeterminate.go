package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Indeterminate is an effect whose outcome is unknown, as a probe needs it.
type Indeterminate struct {
	Effect  ID
	RouteID int32
	Event   ID
	EventID string
	Type    string
	Key     string
	Version int

	// Revision moves with every decision about the effect.
	Revision int

	// Age is how long ago its last attempt may have begun to send.
	Age time.Duration

	// Elsewhere is the target at which it may have happened, if this process has another
	// one for the route: it cannot ask there.
	Elsewhere string

	lease ID
}

const listIndeterminate = `
SELECT e.id, e.route_id, e.event_id, v.event_id, v.type, e.idempotency_key, e.version, e.revision,
    (extract(epoch FROM now() - coalesce(e.send_started_at, v.received_at)) * 1000000)::bigint, e.unknown_lease
FROM effect e
JOIN inbox_event v ON v.id = e.event_id
WHERE e.route_id = $1 AND e.state = 'indeterminate' AND e.reason IS DISTINCT FROM 'parent_gone' AND e.id > coalesce($2::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY e.id
LIMIT $3`

// Indeterminate lists the route's effects whose outcome is unknown, in the order of their ids after the one
// given. It sets Elsewhere for those that may have happened at another target than the one this process has for
// the route. It leaves out those that an earlier call may have made under another key, because the target does
// not know their keys.
func (e *Effects) Indeterminate(ctx context.Context, route int32, after ID, limit int) ([]Indeterminate, error) {
	rows, err := e.pool.Query(ctx, listIndeterminate, route, after, limit)
	if err != nil {
		return nil, fmt.Errorf("listing indeterminate effects: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i Indeterminate, err error) {
		var age int64
		var lease *ID
		err = row.Scan(&i.Effect, &i.RouteID, &i.Event, &i.EventID, &i.Type, &i.Key, &i.Version, &i.Revision, &age, &lease)
		if lease != nil {
			i.lease = *lease
		}
		i.Age = time.Duration(age) * time.Microsecond
		return i, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing indeterminate effects: %w", err)
	}
	for i := range out {
		if out[i].Elsewhere, err = e.elsewhere(ctx, route, out[i].lease); err != nil {
			return nil, fmt.Errorf("listing indeterminate effects: %w", err)
		}
	}
	return out, nil
}
