package read

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// StreamEffect is an effect that waits in a stream, is in flight or blocks it.
type StreamEffect struct {
	ID       inbox.ID   `json:"id"`
	Event    inbox.ID   `json:"event"`
	EventID  string     `json:"event_id"`
	Type     string     `json:"type"`
	Number   string     `json:"number,omitempty"`
	State    string     `json:"state"`
	Reason   string     `json:"reason,omitempty"`
	Attempts int        `json:"attempts"`
	NextAt   *time.Time `json:"next_at,omitempty"`
	// Revision moves whenever the effect leaves a state at rest or is decided about.
	Revision int `json:"revision"`
	// Tenant is the event's tenant; empty if it has none.
	Tenant string `json:"tenant,omitempty"`
}

// StreamDetail is all that is known of one stream.
type StreamDetail struct {
	StreamRow

	// InFlightEffect is being carried out. BlockedByEffect is at rest and blocks the
	// others.
	InFlightEffect  *StreamEffect `json:"in_flight_effect,omitempty"`
	BlockedByEffect *StreamEffect `json:"blocked_by_effect,omitempty"`

	// MissingFrom and MissingTo are the numbers waited for: none that is recorded
	// lies between them. Both are empty without a gap.
	MissingFrom string `json:"missing_from,omitempty"`
	MissingTo   string `json:"missing_to,omitempty"`

	// Waiting are the next ones to run, by number, at most 10.
	Waiting []StreamEffect `json:"waiting"`

	routeID int32
	keyHash []byte
}

// ErrStreamReference is returned for a reference that is neither a stream's id
// nor source/route/key.
var ErrStreamReference = errors.New("neither a stream's id nor source/route/key")

// streamRef is a reference to a stream: our id, or its key.
type streamRef struct {
	id                 int64
	source, route, key string
}

func parseStreamRef(ref string) (streamRef, error) {
	if id, err := strconv.ParseInt(ref, 10, 64); err == nil && id > 0 {
		return streamRef{id: id}, nil
	}
	source, rest, ok := strings.Cut(ref, "/")
	route, key, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 || source == "" || route == "" || key == "" {
		return streamRef{}, fmt.Errorf("%q: %w", ref, ErrStreamReference)
	}
	return streamRef{source: source, route: route, key: key}, nil
}

// The statement finds a stream by our id or by the key; both are unique indexes. If a
// key has streams of several definitions, it finds the newest; the others can be found
// by their ids.
const showStream = `
SELECT st.id, s.name, r.name, st.key_label, st.key_label_sealed, st.key_label_key_id, coalesce(trim_scale(st.applied)::text, ''), st.in_flight, st.gap_since,
    st.blocked_by, st.updated_at, st.started_at, st.route_id, st.key_hash,
    (SELECT count(*) FROM (SELECT FROM effect e
        WHERE e.route_id = st.route_id AND e.sequence_key_hash = st.key_hash AND e.state = 'held' LIMIT $5) w),
    (SELECT count(*) FROM (SELECT FROM effect e
        WHERE e.route_id = st.route_id AND e.sequence_key_hash = st.key_hash AND ` + row.HeldForPerson + ` LIMIT $5) w)
FROM stream st
JOIN route r ON r.id = st.route_id
JOIN source s ON s.id = r.source_id
WHERE CASE WHEN $4::bytea[] IS NULL THEN st.id = $1 ELSE s.name = $2 AND r.name = $3 AND st.key_hash = ANY ($4) END
ORDER BY st.id DESC
LIMIT 1`

// Stream returns one stream by its id or as source/route/key. It returns [inbox.ErrNotFound]
// if there is none.
func (l *Lister) Stream(ctx context.Context, ref string) (*StreamDetail, error) {
	parsed, err := parseStreamRef(ref)
	if err != nil {
		return nil, err
	}
	var hashes [][]byte // nil for a reference by id
	if parsed.id == 0 {
		_, hashes, err = l.keyed(ctx, StreamFilter{Source: parsed.source, Route: parsed.route, Key: parsed.key})
	}
	if err != nil {
		return nil, fmt.Errorf("reading stream %s: %w", ref, err)
	}
	var d StreamDetail
	var stored place.Label
	err = l.pool.QueryRow(ctx, showStream, parsed.id, parsed.source, parsed.route, hashes, MaxHeld).Scan(
		&d.ID, &d.Source, &d.Route, &stored.Plain, &stored.Sealed, &stored.KeyID, &d.Applied, &d.InFlight, &d.GapSince,
		&d.BlockedBy, &d.UpdatedAt, &d.StartedAt, &d.routeID, &d.keyHash, &d.Held, &d.Undecided)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("stream %s: %w", ref, inbox.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading stream %s: %w", ref, err)
	}
	d.Key, d.KeyMissing = stored.Open(l.keys, d.routeID, d.keyHash)
	if err := l.streamEffects(ctx, &d); err != nil {
		return nil, fmt.Errorf("reading stream %s: %w", ref, err)
	}
	return &d, nil
}

const streamEffectColumns = `
SELECT x.id, x.event_id, e.event_id, e.type, coalesce(trim_scale(x.sequence_number)::text, ''), x.state, coalesce(x.reason, ''),
    x.attempts, x.next_at, x.revision, coalesce(e.tenant, s.tenant)
FROM effect x
JOIN inbox_event e ON e.id = x.event_id
JOIN source s ON s.id = e.source_id`

const namedStreamEffects = streamEffectColumns + `
WHERE x.id = ANY ($1::uuid[])`

const waitingStreamEffects = streamEffectColumns + `
WHERE x.route_id = $1 AND x.sequence_key_hash = $2 AND x.state = 'held'
ORDER BY x.sequence_number, x.id
LIMIT $3`

// maxWaiting is how many of those that wait are shown.
const maxWaiting = 10

// streamEffects adds the effects that say what a stream is doing.
func (l *Lister) streamEffects(ctx context.Context, d *StreamDetail) error {
	var named []inbox.ID
	for _, id := range []*inbox.ID{d.InFlight, d.BlockedBy} {
		if id != nil {
			named = append(named, *id)
		}
	}
	found, err := l.collectStreamEffects(ctx, namedStreamEffects, named)
	if err != nil {
		return err
	}
	for i := range found {
		if d.InFlight != nil && found[i].ID == *d.InFlight {
			d.InFlightEffect = &found[i]
		}
		if d.BlockedBy != nil && found[i].ID == *d.BlockedBy {
			d.BlockedByEffect = &found[i]
		}
	}
	if d.Waiting, err = l.collectStreamEffects(ctx, waitingStreamEffects, d.routeID, d.keyHash, maxWaiting); err != nil {
		return err
	}
	err = l.pool.QueryRow(ctx, row.MissingNumbers, d.ID).Scan(&d.MissingFrom, &d.MissingTo)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

func (l *Lister) collectStreamEffects(ctx context.Context, query string, args ...any) ([]StreamEffect, error) {
	rows, err := l.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[StreamEffect])
}
