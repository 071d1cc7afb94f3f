package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// StreamFilter narrows a list of streams; a zero field does not.
type StreamFilter struct {
	Source string
	Route  string
	// Tenant takes the streams that have an effect of an event of the tenant: see [EventFilter].
	Tenant string
	// Key takes the streams of one sequence key, of every route that is not left out
	// otherwise. It is found by its hash, also where the key cannot be read or was erased.
	Key string
	// Blocked takes streams that an effect at rest holds up, Gap those that wait for
	// a missing number. With both, a stream that is one of the two is taken.
	Blocked, Gap bool
	// Before is the last ID of the page before this one; zero starts at the newest.
	Before int64
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// StreamRow is one line of a list of streams: one sequence key of one route.
type StreamRow struct {
	ID     int64  `json:"id"`
	Source string `json:"source"`
	Route  string `json:"route"`
	// Key is empty if it cannot be read here, and once an event of the stream was erased.
	Key string `json:"key"`
	// KeyMissing is the sealing key that the keyring lacks for Key; 0 where it lacks none.
	KeyMissing int32 `json:"key_missing,omitempty"`
	// Applied is the highest number that is settled or given up; empty if there is
	// none.
	Applied string `json:"applied,omitempty"`
	// Held is how many effects wait, counted up to [MaxHeld].
	Held int `json:"held"`
	// Undecided is how many of them only a person ends, counted like Held: see
	// [Lister.Undecided].
	Undecided int        `json:"undecided,omitempty"`
	InFlight  *ID        `json:"in_flight,omitempty"`
	GapSince  *time.Time `json:"gap_since,omitempty"`
	BlockedBy *ID        `json:"blocked_by,omitempty"`
	UpdatedAt time.Time  `json:"updated_at"`
}

// MaxHeld is how far the held effects of one stream are counted.
const MaxHeld = 1000

// The held effects are counted for the rows of the page only: the lateral join
// runs after LIMIT.
const listStreams = `
SELECT t.id, t.source, t.route, t.key_label, t.key_label_sealed, t.key_label_key_id, t.route_id, t.key_hash, t.applied, h.held, h.undecided, t.in_flight, t.gap_since, t.blocked_by, t.updated_at
FROM (
    SELECT st.id, s.name AS source, r.name AS route, st.key_label, st.key_label_sealed, st.key_label_key_id,
        coalesce(trim_scale(st.applied)::text, '') AS applied, st.in_flight, st.gap_since, st.blocked_by, st.updated_at,
        st.route_id, st.key_hash
    FROM stream st
    JOIN route r ON r.id = st.route_id
    JOIN source s ON s.id = r.source_id
    WHERE ($1::text = '' OR s.name = $1)
      AND ($2::text = '' OR r.name = $2)
      AND (NOT ($3::boolean OR $4::boolean) OR $3::boolean AND st.blocked_by IS NOT NULL OR $4::boolean AND st.gap_since IS NOT NULL)
      AND ($5::bigint = 0 OR st.id < $5)
      AND ($8::int[] IS NULL OR (st.route_id, st.key_hash) IN (SELECT * FROM unnest($8::int[], $9::bytea[])))
      AND ($10::text = '' OR EXISTS (SELECT FROM effect x JOIN inbox_event v ON v.id = x.event_id
                                     WHERE x.route_id = st.route_id AND x.sequence_key_hash = st.key_hash AND coalesce(v.tenant, s.tenant) = $10))
    ORDER BY st.id DESC
    LIMIT $6
) t
CROSS JOIN LATERAL (
    SELECT count(*) AS held, count(*) FILTER (WHERE w.undecided) AS undecided
    FROM (SELECT ` + heldForPerson + ` AS undecided FROM effect e WHERE e.route_id = t.route_id AND e.sequence_key_hash = t.key_hash AND e.state = 'held' LIMIT $7) w
) h
ORDER BY t.id DESC`

// Streams gives one page of streams, newest first.
func (l *Lister) Streams(ctx context.Context, f StreamFilter) ([]StreamRow, error) {
	routes, hashes, err := l.keyed(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("listing streams: %w", err)
	}
	rows, err := l.pool.Query(ctx, listStreams, f.Source, f.Route, f.Blocked, f.Gap, f.Before, row.PageSize(f.Limit), MaxHeld, routes, hashes, f.Tenant)
	if err != nil {
		return nil, fmt.Errorf("listing streams: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s StreamRow, err error) {
		var key streamKey
		err = row.Scan(&s.ID, &s.Source, &s.Route, &key.label.Plain, &key.label.Sealed, &key.label.KeyID, &key.routeID, &key.hash, &s.Applied,
			&s.Held, &s.Undecided, &s.InFlight, &s.GapSince, &s.BlockedBy, &s.UpdatedAt)
		s.Key, s.KeyMissing = key.open(l.keys)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing streams: %w", err)
	}
	return out, nil
}
