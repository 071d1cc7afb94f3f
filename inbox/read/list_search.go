package read

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ListBudget is the time after which a list answers with the rows found so far. It counts from the call. A search begins a
// window only if the window is expected to end within half of the budget. A statement that takes longer than expected is
// ended when nine tenths of the budget are used. The first window has no limit.
const ListBudget = 300 * time.Millisecond

// firstWindow is how many rows the first window of a search reads, and maxWindow how many a later one reads at most. A
// search reads its first window with any budget, so that every page makes progress. A row costs a microsecond if its
// neighbours are on the same page of the table, and a hundred times as much if it is alone on a page that is not cached.
const (
	firstWindow = 250
	maxWindow   = 64_000
)

// few is how many rows a list sorts at most instead of walking the table. A source or a state with no more rows is rare.
const few = 10_000

// search is the time budget of one search of a list, with its clock.
type search struct {
	budget time.Duration
	now    func() time.Time
	began  time.Time
}

func newSearch(budget time.Duration, now func() time.Time) *search {
	return &search{budget: budget, now: now, began: now()}
}

func (l *Lister) search() *search { return newSearch(l.budget, l.now) }

// next returns how many rows the next window reads, after a window of that many rows that took that long. It returns 0 if
// the remaining time is enough for too few rows.
func (s *search) next(rows int, took time.Duration) int {
	next := min(4*rows, maxWindow)
	if took <= 0 {
		took = 1
	}
	left := s.budget/2 - s.now().Sub(s.began)
	// A quarter of the remaining time is spare, because the next rows may cost more than these did.
	if fits := float64(rows) * float64(left) / float64(took) * 3 / 4; fits < float64(next) {
		next = int(fits)
	}
	if next < firstWindow/2 {
		return 0
	}
	return next
}

// searchList reads a list window by window, until read has enough rows, the list ends, or the budget is used up. In the
// last case cut is true: the list was searched up to and including the place at, and searched is the time of that place.
// Rows "beyond" a place come after it in the order of the list.
//
// edge returns the place and the time of the last of the next rows beyond from, before a filter leaves any out, or the
// zero place if there are fewer than rows. read takes the rows beyond from, up to and including to, or up to the end if
// to is zero.
func searchList[P listPlace](ctx context.Context, s *search, from P,
	edge func(ctx context.Context, from P, rows int) (P, time.Time, error), read func(ctx context.Context, from, to P) (enough bool, err error),
) (at P, searched time.Time, cut bool, err error) {
	var none P
	window := firstWindow
	for at = from; ; {
		limited := ctx
		if at != from {
			limited = s.limit(ctx, s.budget*9/10) // the rest is for sending the answer
		}
		started := s.now()
		to, edgeTime, err := edge(limited, at, window)
		enough := false
		if err == nil {
			enough, err = read(limited, at, to)
		}
		switch {
		case err != nil && row.TimedOut(err) && at != from:
			return at, searched, true, nil // keep the windows searched so far
		case err != nil || enough || to == none:
			return at, searched, false, err
		}
		at, searched = to, edgeTime
		if window = s.next(window, s.now().Sub(started)); window == 0 {
			return at, searched, true, nil
		}
	}
}
