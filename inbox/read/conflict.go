package read

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// ConflictFilter narrows a list of conflicts; a zero field does not.
type ConflictFilter struct {
	Source string `json:"source,omitempty"`
	// Tenant is the event's: see [EventFilter].
	Tenant string `json:"tenant,omitempty"`
	// Event takes the conflicts of one event.
	Event inbox.ID `json:"event,omitzero"`
	// Waiting takes those that were neither admitted nor dismissed.
	Waiting bool `json:"waiting,omitempty"`
	// Since takes payloads that were delivered since, also where they had been before.
	Since time.Time `json:"-"`
	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string `json:"-"`
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int `json:"-"`
}

// ConflictRow is one payload that was delivered under the id of an event that had
// been recorded with another payload.
type ConflictRow struct {
	ID      inbox.ID `json:"id"`
	Event   inbox.ID `json:"event"`
	Source  string   `json:"source"`
	EventID string   `json:"event_id"`
	Type    string   `json:"type"`

	// SHA256 is the hash of the payload's bytes, in hex; empty if only its HMAC is stored.
	SHA256 string `json:"sha256,omitempty" shows:"hash"`
	Bytes  int    `json:"bytes" shows:"length"`

	// Paths are the JSON paths in which it differs from the event, at most 20; empty if
	// there was nothing to compare with, or one of the two is not JSON.
	Paths []string `json:"paths" shows:"member"`

	// Deliveries is how often the payload came. FirstSeenAt is the time of the first delivery.
	Deliveries  int       `json:"deliveries"`
	FirstSeenAt time.Time `json:"first_seen_at"`
	LastSeenAt  time.Time `json:"last_seen_at"`

	// AdmittedAt and AdmittedAs are set once the payload is admitted as a separate event.
	AdmittedAt *time.Time `json:"admitted_at,omitempty"`
	AdmittedAs *inbox.ID  `json:"admitted_as,omitempty"`

	// DismissedAt and DismissedBy are set once an operator has decided that the payload needs no event.
	DismissedAt *time.Time `json:"dismissed_at,omitempty"`
	DismissedBy string     `json:"dismissed_by,omitempty"`

	// Tenant is the event's tenant; empty if it has none.
	Tenant string `json:"tenant,omitempty"`

	// PayloadHidden says that the hash and the paths were left out, and the length rounded up, because the access lacks
	// read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty" db:"-"`
}

// A sealed payload is longer than its plain text by a constant, which is subtracted.
const conflictColumns = `
SELECT c.id, c.event_id, s.name, e.event_id, c.type, CASE WHEN octet_length(c.sha256) > 32 THEN '' ELSE encode(c.sha256, 'hex') END,
    octet_length(c.body) - CASE WHEN c.key_id IS NULL THEN 0 ELSE ?::int END,
    c.paths, c.deliveries, c.first_seen_at, c.last_seen_at, c.admitted_at, c.admitted_as, c.dismissed_at, coalesce(c.dismissed_by, ''), coalesce(e.tenant, s.tenant)
FROM conflict c JOIN inbox_event e ON e.id = c.event_id JOIN source s ON s.id = c.source_id`

// Predicates returns the conditions of the filter on a conflict c, its event e and its source s.
func (f *ConflictFilter) Predicates() (p row.Predicates) {
	p.AddIf(f.Source != "", `c.source_id = (SELECT x.id FROM source x WHERE x.name = ?)`, f.Source)
	p.AddIf(!f.Event.IsZero(), `c.event_id = ?`, f.Event)
	p.AddIf(f.Waiting, `c.admitted_at IS NULL AND c.dismissed_at IS NULL`)
	p.AddIf(!f.Since.IsZero(), `c.last_seen_at >= ?`, row.Micros(f.Since))
	p.AddIf(f.Tenant != "", `coalesce(e.tenant, s.tenant) = ?`, f.Tenant)
	return p
}

// Conflicts returns one page of the kept payloads, newest first by FirstSeenAt. It returns
// [ErrCursor] for a cursor of another list or filter.
func (l *Lister) Conflicts(ctx context.Context, f ConflictFilter) (page Page[ConflictRow], err error) {
	w := listWalk[ConflictRow, inbox.ID]{cursor: newListCursor[inbox.ID]("conflicts", f), limit: f.Limit, place: func(r *ConflictRow) inbox.ID { return r.ID }}
	if w.from, err = w.cursor.begin(f.Cursor); err != nil {
		return page, fmt.Errorf("listing conflicts: %w", err)
	}
	narrow := f.Predicates()
	narrow.AddIf(l.tenant != "", `coalesce(e.tenant, s.tenant) = ?`, l.tenant)
	between := func(from, to inbox.ID) (p row.Predicates) {
		p.AddIf(!from.IsZero(), `c.id < ?`, from)
		p.AddIf(!to.IsZero(), `c.id >= ?`, to)
		return p
	}
	w.read = func(ctx context.Context, from, to inbox.ID, limit int) ([]ConflictRow, error) {
		var s row.Statement
		s.Add(conflictColumns, seal.Overhead).Where(append(between(from, to), narrow...)).Add(` ORDER BY c.id DESC LIMIT ?`, limit)
		return collect(ctx, l, &s, pgx.RowToStructByPos[ConflictRow])
	}
	if len(narrow) > 0 && f.Event.IsZero() {
		w.edge = func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
			var s row.Statement
			s.Add(`SELECT c.id FROM conflict c`).Where(between(from, inbox.ID{})).Add(` ORDER BY c.id DESC OFFSET ? - 1 LIMIT 1`, rows)
			return l.edge(ctx, &s)
		}
	}
	if page, err = w.page(ctx, l.search()); err != nil {
		return page, fmt.Errorf("listing conflicts: %w", err)
	}
	return page, nil
}

// Conflict returns one conflict, or [inbox.ErrNotFound].
func (l *Lister) Conflict(ctx context.Context, id inbox.ID) (*ConflictRow, error) {
	var s row.Statement
	s.Add(conflictColumns+` WHERE c.id = ?`, seal.Overhead, id)
	rows, err := collect(ctx, l, &s, pgx.RowToStructByPos[ConflictRow])
	if err != nil {
		return nil, fmt.Errorf("reading conflict %s: %w", id, err)
	}
	if len(rows) == 0 || l.tenant != "" && rows[0].Tenant != l.tenant {
		return nil, fmt.Errorf("conflict %s: %w", id, inbox.ErrNotFound)
	}
	return &rows[0], nil
}

const readConflictBody = `SELECT key_id, body FROM conflict WHERE id = $1`

// ConflictBody returns the exact bytes of the conflicting payload. It returns [inbox.ErrNotFound] if
// the payload is no longer kept.
func (l *Lister) ConflictBody(ctx context.Context, id inbox.ID) ([]byte, error) {
	var keyID *int32
	var body []byte
	if err := l.allow(ctx, KindConflict, id); err != nil {
		return nil, fmt.Errorf("payload of conflict %s: %w", id, err)
	}
	err := l.pool.QueryRow(ctx, readConflictBody, id).Scan(&keyID, &body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("payload of conflict %s: %w", id, inbox.ErrNotFound)
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

// AdmittedEventID is the event id under which a payload that conflicts with eventID is admitted:
// the id, "~" and the first 12 hex digits of the stored hash of the payload. An id that is too long for
// the suffix is cut and followed by a "~" and the first 12 hex digits of its SHA-256, so that two
// long ids stay distinct.
func AdmittedEventID(eventID string, sum []byte) string {
	const most = 255
	suffix := "~" + inbox.HashText(sum)[:admittedSum]
	if len(eventID)+len(suffix) > most {
		own := sha256.Sum256([]byte(eventID))
		suffix = "~" + hex.EncodeToString(own[:])[:admittedSum] + suffix
		eventID = pgtext.Clean(eventID, most-len(suffix))
	}
	return eventID + suffix
}
