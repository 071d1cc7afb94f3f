package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// ErrNotFound is returned when what was asked for by name or id is not there.
var ErrNotFound = errors.New("not found")

// Lister answers what a person asks of events and effects. It reads pages by
// key, newest first: a page says what was visible when it was read, never that
// nothing older can still appear, since commits are not in id order.
type Lister struct {
	pool *pgxpool.Pool
	keys *seal.Keyring
}

// NewLister makes a Lister that reads through pool.
func NewLister(pool *pgxpool.Pool) *Lister { return &Lister{pool: pool} }

// WithKeyring gives a Lister that also reads what is sealed. What it cannot open
// is [seal.ErrLost] or [seal.ErrDamaged].
func (l *Lister) WithKeyring(keys *seal.Keyring) *Lister { return &Lister{pool: l.pool, keys: keys} }

// EventFilter narrows a list of events; a zero field does not.
type EventFilter struct {
	Source string
	// Type is exact.
	Type string
	// State takes events that have an effect in it, or, for unusable,
	// beyond_retention and unrouted, events so admitted.
	State string
	// Route takes events that have an effect of it.
	Route string
	// Tenant is who the events belong to. An event that was recorded without one belongs to the
	// tenant that its source has now.
	Tenant string
	// Since is the earliest receipt.
	Since time.Time
	// Before is the last ID of the page before this one; zero starts at the newest.
	Before ID
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// EventRow is one line of a list of events.
type EventRow struct {
	ID         ID        `json:"id"`
	Source     string    `json:"source"`
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	ReceivedAt time.Time `json:"received_at"`
	Admission  string    `json:"admission"`
	// Deliveries is at least 1. Of deliveries that come at the same moment some may not be
	// counted, since none waits for the event's row.
	Deliveries int `json:"deliveries"`
	Conflicts  int `json:"conflicts"`
	// Effects counts the event's effects by state, such as "done 2, dead 1".
	Effects string `json:"effects"`
	// Tenant is who the event belongs to; empty is nobody in particular.
	Tenant string `json:"tenant,omitempty"`
}

// The source is joined and not looked up first, so that a page is one
// statement. The effects are summed for the rows of the page only: the lateral
// join runs after LIMIT.
const listEvents = `
SELECT e.id, e.source, e.event_id, e.type, e.received_at, e.admission, e.deliveries, e.conflicts,
       coalesce(f.states, '') AS effects, e.tenant
FROM (
    SELECT e.id, s.name AS source, e.event_id, e.type, e.received_at, e.admission, e.deliveries, e.conflicts,
           coalesce(e.tenant, s.tenant) AS tenant
    FROM inbox_event e JOIN source s ON s.id = e.source_id
    WHERE ($1::text = '' OR s.name = $1)
      AND ($2::text = '' OR e.type = $2)
      AND ($3::text = '' OR e.admission = $3
           OR EXISTS (SELECT FROM effect x WHERE x.event_id = e.id AND x.state = $3))
      AND ($4::text = '' OR EXISTS (SELECT FROM effect x JOIN route r ON r.id = x.route_id
                                    WHERE x.event_id = e.id AND r.name = $4))
      AND ($5::uuid IS NULL OR e.id >= $5)
      AND ($6::uuid IS NULL OR e.id < $6)
      AND ($7::text = '' OR coalesce(e.tenant, s.tenant) = $7)
    ORDER BY e.id DESC
    LIMIT $8
) e
LEFT JOIN LATERAL (
    SELECT string_agg(n.state || ' ' || n.count, ', ' ORDER BY n.state) AS states
    FROM (SELECT x.state, count(*) AS count FROM effect x WHERE x.event_id = e.id GROUP BY x.state) n
) f ON true
ORDER BY e.id DESC`

// Events gives one page of events, newest first.
func (l *Lister) Events(ctx context.Context, f EventFilter) ([]EventRow, error) {
	rows, err := l.pool.Query(ctx, listEvents,
		f.Source, f.Type, f.State, f.Route, firstIDSince(f.Since), f.Before, f.Tenant, row.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[EventRow])
	if err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	return out, nil
}

// EventDetail is all that is known of one event but its body.
type EventDetail struct {
	EventRow
	Provider        string     `json:"provider"`
	Class           string     `json:"class"`
	AdmissionDetail string     `json:"admission_detail,omitempty"`
	OccurredAt      *time.Time `json:"occurred_at,omitempty"`
	LastDeliveryAt  *time.Time `json:"last_delivery_at,omitempty"`
	BodySHA256      string     `json:"body_sha256"`
	BodyLength      int        `json:"body_length"`
	BodyKept        bool       `json:"body_kept"`
	SuspectedReplay bool       `json:"suspected_replay"`
	ConflictAt      *time.Time `json:"conflict_at,omitempty"`
	ConflictPaths   []string   `json:"conflict_paths,omitempty"`

	// ConflictsKept is how many different payloads of conflicts are kept; of the others
	// only the number is known.
	ConflictsKept int `json:"conflicts_kept"`

	EffectRows []EffectRow `json:"effect_rows"`
}

// Erased reports whether [prune.EraseEvent] took the content of the event.
func (e *EventDetail) Erased() bool { return e.Class == row.ErasedClass }

// Either by our id or by the event's key: both are unique indexes.
const showEvent = `
SELECT e.id, s.name, e.event_id, e.type, e.received_at, e.admission, e.deliveries, e.conflicts,
       s.provider, e.class, coalesce(e.admission_detail, ''), e.occurred_at, e.last_delivery_at,
       encode(e.body_sha256, 'hex'), e.body_length,
       EXISTS (SELECT FROM inbox_body b WHERE b.class = e.class AND b.id = e.body_id),
       e.suspected_replay, e.conflict_at, e.conflict_paths,
       (SELECT count(*) FROM conflict c WHERE c.event_id = e.id), coalesce(e.tenant, s.tenant)
FROM inbox_event e JOIN source s ON s.id = e.source_id
WHERE CASE WHEN $1::uuid IS NOT NULL THEN e.id = $1 ELSE s.name = $2 AND e.event_id = $3 END`

// All of them, also the items of lists that are not shown; the newest state first.
const countEventEffects = `
SELECT coalesce(string_agg(n.state || ' ' || n.count, ', ' ORDER BY n.newest DESC), '')
FROM (SELECT x.state, count(*) AS count, max(x.id::text) AS newest FROM effect x WHERE x.event_id = $1 GROUP BY x.state) n`

// Event gives one event by our id or by its key, source/event-id. It returns
// [ErrNotFound] if there is none.
func (l *Lister) Event(ctx context.Context, ref string) (*EventDetail, error) {
	id, source, eventID, err := parseRef(ref)
	if err != nil {
		return nil, err
	}
	var d EventDetail
	err = l.pool.QueryRow(ctx, showEvent, id, source, eventID).Scan(
		&d.ID, &d.Source, &d.EventID, &d.Type, &d.ReceivedAt, &d.Admission, &d.Deliveries, &d.Conflicts,
		&d.Provider, &d.Class, &d.AdmissionDetail, &d.OccurredAt, &d.LastDeliveryAt,
		&d.BodySHA256, &d.BodyLength, &d.BodyKept, &d.SuspectedReplay, &d.ConflictAt, &d.ConflictPaths, &d.ConflictsKept, &d.Tenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("event %s: %w", ref, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading event %s: %w", ref, err)
	}
	d.EffectRows, err = l.effects(ctx, EffectFilter{Limit: row.MaxPage}, d.ID)
	if err != nil {
		return nil, err
	}
	if err := l.pool.QueryRow(ctx, countEventEffects, d.ID).Scan(&d.Effects); err != nil {
		return nil, fmt.Errorf("counting the effects of event %s: %w", ref, err)
	}
	return &d, nil
}

// The event's own bytes out of its delivery's; of a sealed body all of it, to be
// cut when it is open.
const readBody = `
SELECT CASE WHEN b.key_id IS NULL THEN substr(b.body, e.body_offset + 1, e.body_length) ELSE b.body END,
    b.key_id, b.id, e.body_offset, e.body_length
FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id AND b.class = e.class
WHERE e.id = $1`

// Body gives the exact bytes of one event. It returns [ErrNotFound] if they are
// no longer kept.
func (l *Lister) Body(ctx context.Context, id ID) ([]byte, error) {
	var (
		body           []byte
		keyID          *int32
		bodyID         ID
		offset, length int
	)
	err := l.pool.QueryRow(ctx, readBody, id).Scan(&body, &keyID, &bodyID, &offset, &length)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("body of event %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the body of event %s: %w", id, err)
	}
	if body, err = place.OpenPart(l.keys, bodyID, keyID, body, offset, length); err != nil {
		return nil, fmt.Errorf("reading the body of event %s: %w", id, err)
	}
	return body, nil
}

// since turns an instant into the smallest id made then: ids are made at
// admission, so the primary key serves as the index of received_at.
func firstIDSince(at time.Time) pgtype.UUID {
	if at.IsZero() {
		return pgtype.UUID{}
	}
	return pgtype.UUID{Bytes: FirstID(at), Valid: true}
}

// ErrReference is returned for a reference that is neither a uuid nor
// source/event-id.
var ErrReference = errors.New("neither a uuid nor source/event-id")

func parseRef(ref string) (id ID, source, eventID string, err error) {
	if id, err = ParseID(ref); err == nil {
		return id, "", "", nil
	}
	source, eventID, ok := strings.Cut(ref, "/")
	if !ok || source == "" || eventID == "" {
		return ID{}, "", "", fmt.Errorf("%q: %w", ref, ErrReference)
	}
	return ID{}, source, eventID, nil
}
