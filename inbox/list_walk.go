package inbox

import (
	"cmp"
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

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
	// is asked when the first windows have not filled the page or, with fewFirst, before them.
	few      func(ctx context.Context, from P, limit int) (rows []Row, whole bool, err error)
	fewFirst bool
}

// fewTurn is before which window few is asked. Finding out that there are not few costs more than the windows before it.
const fewTurn = 2

// page reads the page.
func (w *listWalk[Row, P]) page(ctx context.Context, s *search) (Page[Row], error) {
	var none P
	w.limit = row.PageSize(w.limit)
	want := w.limit + 1 // one more says whether there are more
	if w.edge == nil {
		rows, err := w.read(ctx, w.from, none, want)
		return w.end(rows), err
	}
	var rows []Row
	turn := 0
	at, searched, cut, err := searchList(ctx, s, w.from, w.edge, func(ctx context.Context, from, to P) (bool, error) {
		// At the pace so far, the next windows fill a page of which a third is there.
		if w.few != nil && (turn == 0 && w.fewFirst || turn == fewTurn && !w.fewFirst && 3*len(rows) < want) {
			found, whole, err := w.few(s.limit(ctx, s.budget*2/3), from, want-len(rows)) // the rest is for a window
			if err != nil && !row.TimedOut(err) {
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

// PageQuery reads one page of a list, for lists of other packages.
type PageQuery[Row any, P listPlace] struct {
	// List and Filter are what a cursor belongs to; the filter is compared as JSON.
	List   string
	Filter any

	// Cursor is where the page begins or, without one, From is; zero is the beginning of the list.
	Cursor string
	From   P

	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int

	// Place is where a row stands, and Read gives at most limit rows beyond a place, up to and including to, or to the end
	// for the zero place.
	Place func(*Row) P
	Read  func(ctx context.Context, from, to P, limit int) ([]Row, error)

	// Edge gives the place and the time of the last one of that many rows beyond from, before the filter leaves any out,
	// or the zero place if there are fewer. Leave it nil for a filter that leaves out nothing. With it, the list is searched
	// within [ListBudget]: see [Page.SearchedTo].
	Edge func(ctx context.Context, from P, rows int) (P, time.Time, error)

	// Budget is how long the list is searched; 0 is [ListBudget]. Less than nothing ends the search with its first window.
	Budget time.Duration

	// Now is the clock of the budget. It defaults to time.Now.
	Now func() time.Time
}

// ReadPage reads the page. It returns [ErrCursor] for a cursor of another list or filter.
func ReadPage[Row any, P listPlace](ctx context.Context, q PageQuery[Row, P]) (page Page[Row], err error) {
	if q.Now == nil {
		q.Now = time.Now
	}
	w := listWalk[Row, P]{cursor: newListCursor[P](q.List, q.Filter), limit: q.Limit, place: q.Place, read: q.Read, edge: q.Edge}
	if w.from, err = w.cursor.begin(q.Cursor, q.From); err != nil {
		return page, err
	}
	return w.page(ctx, newSearch(cmp.Or(q.Budget, ListBudget), q.Now))
}
