package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ListBudget is how long a list searches before it answers with what it has found so far. It counts from the call;
// the window that is being read when it ends is read to its end, so a page may take a little longer.
const ListBudget = 300 * time.Millisecond

// The rows of a table that one window of a search looks at: of the first one, and at most. A row costs a microsecond,
// or thirty where the reason of its last attempt is asked for.
const (
	firstWindow = 2000
	maxWindow   = 64_000
)

// few is how many rows are sorted instead of walking the table for them: a source, or a state, that has no more of
// them is rare. It costs about as much as three windows.
const few = 10_000

// searchList reads a list window by window, until read says that it has what it wants, the list ends, or the budget is
// used up. Then cut is true, and the list was searched up to and including the place at, which is of the time searched.
// "Beyond" a place is what stands behind it in the order of the list.
//
// edge gives the place and the time of the last one of that many rows beyond from, before a filter leaves any out; the
// zero place if there are fewer. read takes the rows beyond from, up to and including to, or to the end for the zero
// place.
func searchList[P listPlace](ctx context.Context, l *Lister, from P,
	edge func(ctx context.Context, from P, rows int) (P, time.Time, error), read func(ctx context.Context, from, to P) (enough bool, err error),
) (at P, searched time.Time, cut bool, err error) {
	var none P
	began := l.now()
	window := firstWindow
	for at = from; ; {
		started := l.now()
		to, edgeTime, err := edge(ctx, at, window)
		enough := false
		if err == nil {
			enough, err = read(ctx, at, to)
		}
		switch {
		case err != nil && timedOut(err) && at != from:
			return at, searched, true, nil // what was searched before stands
		case err != nil || enough || to == none:
			return at, searched, false, err
		}
		at, searched = to, edgeTime
		now := l.now()
		took := now.Sub(started)
		switch {
		case took < l.budget/8 && window < maxWindow:
			window, took = 2*window, 2*took
		case took > l.budget/3:
			window, took = max(window/2, 1), took/2
		}
		if now.Sub(began)+took > l.budget {
			return at, searched, true, nil
		}
	}
}

// listWalk reads one page of a list. A place is an id or a number, in the order of the list; see [searchList].
type listWalk[Row any, P listPlace] struct {
	cursor listCursor[P]

	// from is where the page begins; zero is the beginning of the list.
	from  P
	limit int

	// place is where a row stands.
	place func(*Row) P

	// read gives at most limit rows beyond from, up to and including to, or to the end for the zero place.
	read func(ctx context.Context, from, to P, limit int) ([]Row, error)

	// edge is nil for a filter that leaves out nothing: its page is read at once.
	edge func(ctx context.Context, from P, rows int) (P, time.Time, error)

	// few, if set, gives the rows beyond from if all that may be among them are few, in which case whole is true. It
	// is asked when the first window has not filled the page or, with fewFirst, before.
	few      func(ctx context.Context, from P, limit int) (rows []Row, whole bool, err error)
	fewFirst bool
}

// page reads the page.
func (w *listWalk[Row, P]) page(ctx context.Context, l *Lister) (Page[Row], error) {
	var none P
	w.limit = row.PageSize(w.limit)
	want := w.limit + 1 // one more says whether there are more
	if w.edge == nil {
		rows, err := w.read(ctx, w.from, none, want)
		return w.end(rows), err
	}
	var rows []Row
	turn := 0
	at, searched, cut, err := searchList(ctx, l, w.from, w.edge, func(ctx context.Context, from, to P) (bool, error) {
		if w.few != nil && (turn == 0 && w.fewFirst || turn == 1 && !w.fewFirst) {
			found, whole, err := w.few(ctx, from, want-len(rows))
			if err != nil && !timedOut(err) {
				return false, err
			}
			if err == nil && whole {
				rows = append(rows, found...)
				return true, nil
			}
		}
		turn++
		found, err := w.read(ctx, from, to, want-len(rows))
		rows = append(rows, found...)
		return len(rows) >= want, err
	})
	if err != nil {
		return Page[Row]{}, err
	}
	page := w.end(rows)
	if cut {
		page.HasMore, page.Next, page.SearchedTo = true, w.cursor.text(at), &searched
	}
	return page, nil
}

// end is a page behind which there is nothing, or the row too many.
func (w *listWalk[Row, P]) end(rows []Row) Page[Row] {
	return PageOf(rows, w.limit, func(r Row) string { return w.cursor.text(w.place(&r)) })
}

// PageQuery reads one page of a list that no filter makes long to search, for lists of other packages.
type PageQuery[Row any, P listPlace] struct {
	// List and Filter are what a cursor belongs to; the filter is compared as JSON.
	List   string
	Filter any

	// Cursor is where the page begins or, without one, From is; zero is the beginning of the list.
	Cursor string
	From   P

	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int

	// Place is where a row stands, and Read gives at most limit rows beyond a place.
	Place func(*Row) P
	Read  func(ctx context.Context, from P, limit int) ([]Row, error)
}

// ReadPage reads the page. It returns [ErrCursor] for a cursor of another list or filter.
func ReadPage[Row any, P listPlace](ctx context.Context, q PageQuery[Row, P]) (page Page[Row], err error) {
	w := listWalk[Row, P]{
		cursor: newListCursor[P](q.List, q.Filter), limit: q.Limit, place: q.Place,
		read: func(ctx context.Context, from, _ P, limit int) ([]Row, error) { return q.Read(ctx, from, limit) },
	}
	if w.from, err = w.cursor.begin(q.Cursor, q.From); err != nil {
		return page, err
	}
	return w.page(ctx, nil)
}

// timedOut reports whether the server ended a statement because of its statement_timeout.
func timedOut(err error) bool {
	const queryCanceled = "57014"
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == queryCanceled
}
