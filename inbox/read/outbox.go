package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// OutboxFilter narrows a list of emitted events that are not admitted yet; a zero
// field does not.
type OutboxFilter struct {
	// ID selects one row.
	ID     int64  `json:"id,omitempty"`
	Source string `json:"source,omitempty"`
	// Tenant is the tenant of the source.
	Tenant string `json:"tenant,omitempty"`
	// Refused takes those that can never be admitted.
	Refused bool `json:"refused,omitempty"`
	// Since is the earliest call of emit.
	Since time.Time `json:"-"`
	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string `json:"-"`
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int `json:"-"`
}

// OutboxRow is an emitted event that is not admitted yet.
type OutboxRow struct {
	ID        int64     `json:"id"`
	Source    string    `json:"source"`
	EventID   string    `json:"event_id"`
	Type      string    `json:"type"`
	Bytes     int       `json:"bytes" shows:"length"`
	EmittedAt time.Time `json:"emitted_at"`

	// RefusedAt and Refusal are set once it can never be admitted: "source" (no process
	// knows the source, or it is not open to emit any more; it is relayed as soon as one
	// does), "event_id", "type" or "too_large".
	RefusedAt *time.Time `json:"refused_at,omitempty"`
	Refusal   string     `json:"refusal,omitempty"`
}

// A row has the name that its source was first registered under; shown is the one it has
// now.
const (
	selectOutbox = `
SELECT o.id, coalesce(s.name, o.source), o.event_id, o.type, octet_length(o.payload), o.created_at, o.refused_at, coalesce(o.refusal, '')
FROM (SELECT o.* FROM outbox o`
	joinOutbox = ` ORDER BY o.id LIMIT ?) o
LEFT JOIN source s ON coalesce(s.key_name, s.name) = o.source
ORDER BY o.id`
)

// Outbox returns one page of the emitted events that are not admitted yet, the oldest
// first. It returns [ErrCursor] for a cursor of another list or filter.
func (l *Lister) Outbox(ctx context.Context, f OutboxFilter) (page Page[OutboxRow], err error) {
	w := listWalk[OutboxRow, int64]{cursor: newListCursor[int64]("outbox", f), limit: f.Limit, place: func(r *OutboxRow) int64 { return r.ID }}
	if w.from, err = w.cursor.begin(f.Cursor); err != nil {
		return page, fmt.Errorf("listing the outbox: %w", err)
	}
	var walked, narrow row.Predicates
	walked.AddIf(f.ID != 0, `o.id = ?`, f.ID)
	walked.AddIf(f.Refused, `o.refused_at IS NOT NULL`)
	narrow.AddIf(f.Source != "", `coalesce((SELECT s.name FROM source s WHERE coalesce(s.key_name, s.name) = o.source), o.source) = ?`, f.Source)
	narrow.AddIf(!f.Since.IsZero(), `o.created_at >= ?`, row.Micros(f.Since))
	narrow.AddIf(f.Tenant != "", `(SELECT s.tenant FROM source s WHERE coalesce(s.key_name, s.name) = o.source) = ?`, f.Tenant)
	narrow.AddIf(l.tenant != "", `(SELECT s.tenant FROM source s WHERE coalesce(s.key_name, s.name) = o.source) = ?`, l.tenant)
	between := func(from, to int64) row.Predicates {
		p := walked.With(row.Is(`o.id > ?`, from))
		p.AddIf(to > 0, `o.id <= ?`, to)
		return p
	}
	w.read = func(ctx context.Context, from, to int64, limit int) ([]OutboxRow, error) {
		var s row.Statement
		s.Add(selectOutbox).Where(append(between(from, to), narrow...)).Add(joinOutbox, limit)
		return collect(ctx, l, &s, pgx.RowToStructByPos[OutboxRow])
	}
	if len(narrow) > 0 {
		w.edge = func(ctx context.Context, from int64, rows int) (int64, time.Time, error) {
			var s row.Statement
			s.Add(`SELECT o.id, o.created_at FROM outbox o`).Where(between(from, 0)).Add(` ORDER BY o.id OFFSET ? - 1 LIMIT 1`, rows)
			return l.numberEdge(ctx, &s)
		}
	}
	if page, err = w.page(ctx, l.search()); err != nil {
		return page, fmt.Errorf("listing the outbox: %w", err)
	}
	return page, nil
}

const readOutboxBody = `
SELECT o.payload
FROM outbox o
LEFT JOIN source s ON coalesce(s.key_name, s.name) = o.source
WHERE o.id = $1 AND ($2 = '' OR s.tenant = $2)`

// OutboxBody returns the payload of an emitted event, or [inbox.ErrNotFound].
func (l *Lister) OutboxBody(ctx context.Context, id int64) ([]byte, error) {
	var body []byte
	err := l.pool.QueryRow(ctx, readOutboxBody, id, l.tenant).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		err = inbox.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading row %d of the outbox: %w", id, err)
	}
	return body, nil
}
