package read

import (
	"cmp"
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// listWalk reads one page of a list. A place is an id or a number, in the order of the list; see [searchList].
type listWalk[Row any, P listPlace] struct {
	cursor listCursor[P]

	// from is the place after which the page begins; zero is the beginning of the list.
	from  P
	limit int

	// place returns the place of a row.
	place func(*Row) P

	// read returns at most limit rows beyond from, up to and including to, or up to the end if to is zero.
	read func(ctx context.Context, from, to P, limit int) ([]Row, error)

	// edge is nil for a filter that leaves out nothing, because one statement then reads the page.
	edge func(ctx context.Context, from P, rows int) (P, time.Time, error)

	// few, if set, returns the rows beyond from if few rows can match the filter. whole is then true. page calls it after
	// the first windows if they have not filled the page or, with fewFirst, before them.
	few      func(ctx context.Context, from P, limit int) (rows []Row, whole bool, err error)
	fewFirst bool
}

// fewTurn is how many windows are read before few is called. Finding out that the rows are not few costs more than these windows.
const fewTurn = 2

// page reads the page.
func (w *listWalk[Row, P]) page(ctx context.Context, s *search) (Page[Row], error) {
	var none P
	w.limit = row.PageSize(w.limit)
	want := w.limit + 1 // one more row shows whether there is another page
	if w.edge == nil {
		rows, err := w.read(ctx, w.from, none, want)
		return w.end(rows), err
	}
	var rows []Row
	turn := 0
	at, searched, cut, err := searchList(ctx, s, w.from, w.edge, func(ctx context.Context, from, to P) (bool, error) {
		// If a third of the page is found, the next windows will fill it at the pace so far.
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

// end returns the page of the rows. There are more pages if the rows have one more than the limit.
func (w *listWalk[Row, P]) end(rows []Row) Page[Row] {
	return PageOf(rows, w.limit, func(r Row) string { return w.cursor.text(w.place(&r)) })
}

// PageQuery asks for one page of a list of another package.
type PageQuery[Row any, P listPlace] struct {
	// List and Filter identify the list to which a cursor belongs. Filters are compared as JSON.
	List   string
	Filter any

	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string

	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int

	// Place returns the place of a row. Read returns at most limit rows beyond from, up to and including to, or up to the
	// end if to is zero.
	Place func(*Row) P
	Read  func(ctx context.Context, from, to P, limit int) ([]Row, error)

	// Edge returns the place and the time of the last of the next rows beyond from, before the filter leaves any out, or
	// the zero place if there are fewer than rows. Leave it nil for a filter that leaves out nothing. With it, the list is
	// searched within Budget: see [Page.SearchedTo].
	Edge func(ctx context.Context, from P, rows int) (P, time.Time, error)

	// Budget is how long the list is searched; 0 is [ListBudget]. A negative budget ends the search after its first window.
	Budget time.Duration

	// Now is the clock of the budget. It defaults to time.Now.
	Now func() time.Time
}

// NextPage reads the page. It returns [ErrCursor] for a cursor of another list or filter.
func NextPage[Row any, P listPlace](ctx context.Context, q PageQuery[Row, P]) (page Page[Row], err error) {
	if q.Now == nil {
		q.Now = time.Now
	}
	w := listWalk[Row, P]{cursor: newListCursor[P](q.List, q.Filter), limit: q.Limit, place: q.Place, read: q.Read, edge: q.Edge}
	if w.from, err = w.cursor.begin(q.Cursor); err != nil {
		return page, err
	}
	return w.page(ctx, newSearch(cmp.Or(q.Budget, ListBudget), q.Now))
}
