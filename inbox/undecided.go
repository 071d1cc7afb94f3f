package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Undecided is an effect that is held for a person: it has no sequence key or number,
// or the number of another one, and the route's order says hold.
type Undecided struct {
	Effect     ID        `json:"effect"`
	Event      ID        `json:"event"`
	EventID    string    `json:"event_id"`
	Source     string    `json:"source"`
	Route      string    `json:"route"`
	Key        string    `json:"key,omitempty"`
	KeyMissing int32     `json:"key_missing,omitempty"` // as in [StreamRow]
	Number     string    `json:"number,omitempty"`
	Reason     Reason    `json:"reason"`
	ReceivedAt time.Time `json:"received_at"`
	// Stream is the id of its stream; 0 without a key.
	Stream int64 `json:"stream,omitempty"`
	// Revision moves whenever the effect is decided about.
	Revision int `json:"revision"`
}

// heldForPerson says of an effect e that only a person ends its wait.
const heldForPerson = `e.state = 'held' AND e.reason IN ('sequence_key_missing', 'sequence_number_missing', 'sequence_number_taken')`

func forPerson(r Reason) bool { return r == ReasonNoKey || r == ReasonNoNumber || r == ReasonTie }

const listUndecided = `
SELECT e.id, v.id, v.event_id, s.name, r.name, st.key_label, st.key_label_sealed, st.key_label_key_id, e.route_id, e.sequence_key_hash, coalesce(trim_scale(e.sequence_number)::text, ''), e.reason,
    v.received_at, coalesce(st.id, 0), e.revision
FROM effect e
JOIN route r ON r.id = e.route_id
JOIN source s ON s.id = r.source_id
JOIN inbox_event v ON v.id = e.event_id
LEFT JOIN stream st ON st.route_id = e.route_id AND st.key_hash = e.sequence_key_hash
WHERE ` + heldForPerson + `
    AND ($1::text = '' OR s.name = $1) AND ($2::text = '' OR r.name = $2)
    AND ($3::bigint = 0 OR st.id = $3)
    AND ($5::int[] IS NULL OR (st.route_id, st.key_hash) IN (SELECT * FROM unnest($5::int[], $6::bytea[])))
    AND ($7::text = '' OR coalesce(v.tenant, s.tenant) = $7)
ORDER BY e.id
LIMIT $4`

// Undecided gives the oldest effects that are held for a person, those of one stream
// if that is not 0. Of the filter it takes the source, the route, the tenant, the key and the limit.
func (l *Lister) Undecided(ctx context.Context, f StreamFilter, stream int64) ([]Undecided, error) {
	routes, hashes, err := l.keyed(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("listing effects held for a person: %w", err)
	}
	rows, err := l.pool.Query(ctx, listUndecided, f.Source, f.Route, stream, row.PageSize(f.Limit), routes, hashes, f.Tenant)
	if err != nil {
		return nil, fmt.Errorf("listing effects held for a person: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u Undecided, err error) {
		var key streamKey
		err = row.Scan(&u.Effect, &u.Event, &u.EventID, &u.Source, &u.Route, &key.label.Plain, &key.label.Sealed, &key.label.KeyID,
			&key.routeID, &key.hash, &u.Number, &u.Reason, &u.ReceivedAt, &u.Stream, &u.Revision)
		u.Key, u.KeyMissing = key.open(l.keys)
		return u, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing effects held for a person: %w", err)
	}
	return out, nil
}
