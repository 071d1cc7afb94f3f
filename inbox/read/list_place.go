package read

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Ids are generated at admission, so that the primary key serves as the index of received_at.

// idSince returns the smallest id of an instant, or the zero id for the zero time.
func idSince(at time.Time) inbox.ID {
	if at.IsZero() {
		return inbox.ID{}
	}
	return inbox.FirstID(at)
}

// begin returns the place after which a page begins: the cursor's place, or zero without a cursor. If an end in until
// is lower, begin returns that end, so that the page skips rows outside the time range. It returns [ErrCursor] for a
// cursor of another list.
func (c listCursor[P]) begin(cursor string, until ...P) (from P, err error) {
	var none P
	if from, err = c.parse(cursor); err != nil {
		return from, err
	}
	for _, end := range until {
		if end != none && (from == none || lower(end, from)) {
			from = end
		}
	}
	return from, nil
}

// lower reports whether place a is smaller than place b.
func lower[P listPlace](a, b P) bool {
	switch a := any(a).(type) {
	case inbox.ID:
		b := any(b).(inbox.ID)
		return bytes.Compare(a[:], b[:]) < 0
	case int64:
		return a < any(b).(int64)
	}
	return false
}

// later returns the later of two places. It is used for the older end of the rows to read.
func later[P listPlace](a, b P) P {
	if lower(a, b) {
		return b
	}
	return a
}

// eventsBetween narrows events v to ids from first on and below before. A zero id does not narrow them.
func eventsBetween(first, before inbox.ID) (p row.Predicates) {
	p.AddIf(!first.IsZero(), `v.id >= ?`, first)
	p.AddIf(!before.IsZero(), `v.id < ?`, before)
	return p
}

// effectsBetween is eventsBetween for effects e.
func effectsBetween(first, before inbox.ID) (p row.Predicates) {
	p.AddIf(!first.IsZero(), `e.id >= ?`, first)
	p.AddIf(!before.IsZero(), `e.id < ?`, before)
	return p
}

// collect runs a statement and reads its rows.
func collect[Row any](ctx context.Context, l *Lister, s *row.Statement, scan pgx.RowToFunc[Row]) ([]Row, error) {
	return row.Collect(ctx, l.pool, s, scan)
}

// one runs a statement that returns at most one row, and reports whether it returned one.
func (l *Lister) one(ctx context.Context, s *row.Statement, into ...any) (found bool, err error) {
	return row.QueryOne(ctx, l.pool, s, into...)
}

// edge runs a statement that returns the id at which a window ends, if there is one.
func (l *Lister) edge(ctx context.Context, s *row.Statement) (id inbox.ID, at time.Time, err error) {
	found, err := l.one(ctx, s, &id)
	if !found {
		return inbox.ID{}, at, err
	}
	return id, id.Time(), err
}

// numberEdge is edge for rows with numbers. Numbers contain no time, so that the statement returns it too.
func (l *Lister) numberEdge(ctx context.Context, s *row.Statement) (id int64, at time.Time, err error) {
	_, err = l.one(ctx, s, &id, &at)
	return id, at, err
}

// isFew runs a statement that counts rows up to [few] and one more, and reports whether they are few.
func (l *Lister) isFew(ctx context.Context, s *row.Statement) (bool, error) {
	var n int
	_, err := l.one(ctx, s, &n)
	return n <= few, err
}
