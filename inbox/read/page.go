package read

import "time"

// Page is one page of a list, in the form in which the API and the command line give it. There are no totals: counting
// what matches costs as much as reading it.
type Page[Row any] struct {
	// Data are the rows, in the order of the list; empty, not null, if there are none.
	Data []Row `json:"data"`

	// HasMore says that Next leads to further rows, or to a part of the table that was not searched yet.
	HasMore bool `json:"has_more"`

	// Next is the cursor of the next page; empty on the last one. It is opaque: callers hand it back with the same
	// filter and read nothing out of it.
	Next string `json:"next,omitempty"`

	// SearchedTo is how far back the list was searched when its time ran out. Rows that are older are found with Next.
	// It is nil where the page is full, or where the list was searched to its end.
	SearchedTo *time.Time `json:"searched_to,omitempty"`

	// Databases are the names of the databases that have the rows, in the order of Data. It is empty in a process with one
	// database.
	Databases []string `json:"databases,omitempty"`

	// Away are the names of the databases that did not answer, so that the page lacks their rows. Next finds them when they are
	// back.
	Away []string `json:"away,omitempty"`
}

// IsEmpty reports whether the list has nothing, and everything was searched.
func (p Page[Row]) IsEmpty() bool { return len(p.Data) == 0 && !p.HasMore && p.SearchedTo == nil }

// PageOf makes a page of at most limit rows out of rows, of which one more than limit was asked for: whether it came says
// whether there are more. The cursor is made of the last row that is given.
func PageOf[Row any](rows []Row, limit int, cursor func(Row) string) Page[Row] {
	page := Page[Row]{Data: rows}
	if len(rows) > limit {
		page.Data, page.HasMore = rows[:limit], true
		page.Next = cursor(page.Data[limit-1])
	}
	if page.Data == nil {
		page.Data = []Row{}
	}
	return page
}
