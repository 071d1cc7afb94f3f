package inbox

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Ids are made at admission, so the primary key serves as the index of received_at.

// idSince is the smallest id made at or after an instant; zero for none.
func idSince(at time.Time) ID {
	if at.IsZero() {
		return ID{}
	}
	return FirstID(at)
}

// begin gives the place where a page begins: behind the page before it, which a cursor or its last row names, and not
// before the end of the time that the list is narrowed to. It returns [ErrCursor].
func (c listCursor[P]) begin(cursor string, before P, until ...P) (from P, err error) {
	var none P
	if from, err = c.parse(cursor); err != nil {
		return from, err
	}
	if from == none {
		from = before
	}
	for _, end := range until {
		if end != none && (from == none || lower(end, from)) {
			from = end
		}
	}
	return from, nil
}

// lower reports whether a place is before another one.
func lower[P listPlace](a, b P) bool {
	switch a := any(a).(type) {
	case ID:
		b := any(b).(ID)
		return bytes.Compare(a[:], b[:]) < 0
	case int64:
		return a < any(b).(int64)
	}
	return false
}

// later is the later one of two places, for the older end of what is read.
func later[P listPlace](a, b P) P {
	if lower(a, b) {
		return b
	}
	return a
}

// eventsBetween narrows events v to those from an id on and before another one; a zero id does not.
func eventsBetween(first, before ID) (p row.Predicates) {
	p.AddIf(!first.IsZero(), `v.id >= ?`, first)
	p.AddIf(!before.IsZero(), `v.id < ?`, before)
	return p
}

// effectsBetween does it for effects e.
func effectsBetween(first, before ID) (p row.Predicates) {
	p.AddIf(!first.IsZero(), `e.id >= ?`, first)
	p.AddIf(!before.IsZero(), `e.id < ?`, before)
	return p
}

// collect runs a statement and reads its rows.
func collect[Row any](ctx context.Context, l *Lister, s *row.Statement, scan pgx.RowToFunc[Row]) ([]Row, error) {
	return row.Collect(ctx, l.pool, s, scan)
}

// one runs a statement that gives one row or none, and says whether it did.
func (l *Lister) one(ctx context.Context, s *row.Statement, into ...any) (found bool, err error) {
	return row.QueryOne(ctx, l.pool, s, into...)
}

// edge runs a statement that gives the id at which a window ends, if there is one.
func (l *Lister) edge(ctx context.Context, s *row.Statement) (id ID, at time.Time, err error) {
	found, err := l.one(ctx, s, &id)
	if !found {
		return ID{}, at, err
	}
	return id, id.Time(), err
}

// numberEdge is edge for rows that have numbers, which do not tell their times.
func (l *Lister) numberEdge(ctx context.Context, s *row.Statement) (id int64, at time.Time, err error) {
	_, err = l.one(ctx, s, &id, &at)
	return id, at, err
}

// isFew runs a statement that counts rows, [few] and one of them at most.
func (l *Lister) isFew(ctx context.Context, s *row.Statement) (bool, error) {
	var n int
	_, err := l.one(ctx, s, &n)
	return n <= few, err
}
