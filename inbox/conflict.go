package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// ConflictFilter narrows a list of conflicts; a zero field does not.
type ConflictFilter struct {
	Source string
	// Tenant is the event's: see [EventFilter].
	Tenant string
	// Event takes the conflicts of one event.
	Event ID
	// Since takes payloads that were delivered since, also where they had been before.
	Since time.Time
	// Before is the last ID of the page before this one; zero starts at the newest.
	Before ID
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// ConflictRow is one payload that was delivered under the id of an event that had
// been recorded with another payload.
type ConflictRow struct {
	ID      ID     `json:"id"`
	Event   ID     `json:"event"`
	Source  string `json:"source"`
	EventID string `json:"event_id"`
	Type    string `json:"type"`

	// SHA256 is the hash of the payload's bytes, in hex.
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`

	// Paths are the JSON paths in which it differs from the event, at most 20; empty if
	// there was nothing to compare with, or one of the two is not JSON.
	Paths []string `json:"paths"`

	// Deliveries is how often it came, under the first of which FirstSeenAt stands.
	Deliveries  int       `json:"deliveries"`
	FirstSeenAt time.Time `json:"first_seen_at"`
	LastSeenAt  time.Time `json:"last_seen_at"`

	// AdmittedAt and AdmittedAs are set once it is an event of its own.
	AdmittedAt *time.Time `json:"admitted_at,omitempty"`
	AdmittedAs *ID        `json:"admitted_as,omitempty"`

	// Tenant is the event's; empty is nobody in particular.
	Tenant string `json:"tenant,omitempty"`
}

// The length of a sealed payload is that of its plain text and a constant, which
// is subtracted.
const conflictColumns = `
SELECT c.id, c.event_id, s.name, e.event_id, c.type, encode(c.sha256, 'hex'),
    octet_length(c.body) - CASE WHEN c.key_id IS NULL THEN 0 ELSE $1::int END,
    c.paths, c.deliveries, c.first_seen_at, c.last_seen_at, c.admitted_at, c.admitted_as, coalesce(e.tenant, s.tenant)
FROM conflict c JOIN inbox_event e ON e.id = c.event_id JOIN source s ON s.id = c.source_id`

const listConflicts = conflictColumns + `
WHERE ($2::text = '' OR s.name = $2)
    AND ($3::uuid IS NULL OR c.event_id = $3)
    AND ($4::timestamptz IS NULL OR c.last_seen_at >= $4)
    AND ($5::uuid IS NULL OR c.id < $5)
    AND ($6::text = '' OR coalesce(e.tenant, s.tenant) = $6)
ORDER BY c.id DESC
LIMIT $7`

// Conflicts gives one page of the payloads that are kept, those first seen last
// first.
func (l *Lister) Conflicts(ctx context.Context, f ConflictFilter) ([]ConflictRow, error) {
	rows, err := l.pool.Query(ctx, listConflicts, seal.Overhead, f.Source, f.Event, row.Micros(f.Since), f.Before, f.Tenant, row.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("listing conflicts: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ConflictRow])
	if err != nil {
		return nil, fmt.Errorf("listing conflicts: %w", err)
	}
	return out, nil
}

const showConflict = conflictColumns + `
WHERE c.id = $2`

// Conflict gives one conflict, or [ErrNotFound].
func (l *Lister) Conflict(ctx context.Context, id ID) (*ConflictRow, error) {
	rows, err := l.pool.Query(ctx, showConflict, seal.Overhead, id)
	if err != nil {
		return nil, fmt.Errorf("reading conflict %s: %w", id, err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[ConflictRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("conflict %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading conflict %s: %w", id, err)
	}
	return &row, nil
}

const readConflictBody = `SELECT key_id, body FROM conflict WHERE id = $1`

// ConflictBody gives the exact bytes of the payload that conflicts. It returns
// [ErrNotFound] if it is not kept any more.
func (l *Lister) ConflictBody(ctx context.Context, id ID) ([]byte, error) {
	var keyID *int32
	var body []byte
	err := l.pool.QueryRow(ctx, readConflictBody, id).Scan(&keyID, &body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("payload of conflict %s: %w", id, ErrNotFound)
	}
	if err == nil {
		body, err = l.keys.Open(place.Conflict(id, "body"), keyID, body)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the payload of conflict %s: %w", id, err)
	}
	return body, nil
}

// admittedSum is how many hex digits of the payload's hash the id of an admitted
// conflict ends in.
const admittedSum = 12

// AdmittedEventID is the event id under which a payload that conflicts with eventID
// is admitted: the id, "~" and the first 12 hex digits of the payload's SHA-256. Of
// an id that leaves no room, as much stands as fits before a "~" and the first 12 hex
// digits of its own SHA-256, so that two long ids stay apart.
func AdmittedEventID(eventID string, sum []byte) string {
	const most = 255
	suffix := "~" + hex.EncodeToString(sum)[:admittedSum]
	if len(eventID)+len(suffix) > most {
		own := sha256.Sum256([]byte(eventID))
		suffix = "~" + hex.EncodeToString(own[:])[:admittedSum] + suffix
		eventID = pgtext.Clean(eventID, most-len(suffix))
	}
	return eventID + suffix
}
