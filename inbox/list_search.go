package inbox

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ListBudget is the most time that a list takes before it answers with what it has found. It counts from the call. No
// window of a search is begun that would end after half of it, so that a full page comes within that half; a statement
// that takes longer than expected ends with the budget.
const ListBudget = 300 * time.Millisecond

// The rows of a table that one window of a search looks at: of the first one, and at most. The first window is read
// whatever the budget says, so that every page gets on. A row costs a microsecond where its neighbours are on the same
// page of the table, and a hundred times that where each is on a page of its own that is not cached.
const (
	firstWindow = 250
	maxWindow   = 64_000
)

// few is how many rows are sorted instead of walking the table for them: a source, or a state, that has no more of
// them is rare.
const few = 10_000

// search is the time that one search of a list has, and how it reads the clock.
type search struct {
	budget time.Duration
	now    func() time.Time
	began  time.Time
}

func newSearch(budget time.Duration, now func() time.Time) *search {
	return &search{budget: budget, now: now, began: now()}
}

func (l *Lister) search() *search { return newSearch(l.budget, l.now) }

// next is how many rows the window after one of that many rows looks at, which took that long; 0 if the budget leaves
// room for too few.
func (s *search) next(rows int, took time.Duration) int {
	next := min(4*rows, maxWindow)
	if took <= 0 {
		took = 1
	}
	left := s.budget/2 - s.now().Sub(s.began)
	// A quarter of what is left is kept: the next rows may cost more than these did.
	if fits := float64(rows) * float64(left) / float64(took) * 3 / 4; fits < float64(next) {
		next = int(fits)
	}
	if next < firstWindow/2 {
		return 0
	}
	return next
}

// searchList reads a list window by window, until read says that it has what it wants, the list ends, or the budget is
// used up. Then cut is true, and the list was searched up to and including the place at, which is of the time searched.
// "Beyond" a place is what stands behind it in the order of the list.
//
// edge gives the place and the time of the last one of that many rows beyond from, before a filter leaves any out; the
// zero place if there are fewer. read takes the rows beyond from, up to and including to, or to the end for the zero
// place.
func searchList[P listPlace](ctx context.Context, s *search, from P,
	edge func(ctx context.Context, from P, rows int) (P, time.Time, error), read func(ctx context.Context, from, to P) (enough bool, err error),
) (at P, searched time.Time, cut bool, err error) {
	var none P
	window := firstWindow
	for at = from; ; {
		limited := ctx
		if at != from {
			limited = s.limit(ctx, s.budget*9/10) // the rest is for the way of the answer
		}
		started := s.now()
		to, edgeTime, err := edge(limited, at, window)
		enough := false
		if err == nil {
			enough, err = read(limited, at, to)
		}
		switch {
		case err != nil && row.TimedOut(err) && at != from:
			return at, searched, true, nil // what was searched before stands
		case err != nil || enough || to == none:
			return at, searched, false, err
		}
		at, searched = to, edgeTime
		if window = s.next(window, s.now().Sub(started)); window == 0 {
			return at, searched, true, nil
		}
	}
}
