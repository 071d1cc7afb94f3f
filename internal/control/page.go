package control

import (
	"fmt"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
)

// PageRequest selects the page of a list.
type PageRequest struct {
	// Limit is the largest number of rows in the page, from 1 to 1,000. 0 is 50.
	Limit int `json:"limit,omitempty"`

	// After is the cursor of the previous page, its next. It is only valid with the same filter.
	After string `json:"after,omitempty"`
}

// SetPage selects a page, for a caller that reads one after another.
func (p *PageRequest) SetPage(page PageRequest) { *p = page }

// limit returns the size of the page, or an error.
func (p PageRequest) limit() (int, error) {
	switch {
	case p.Limit == 0:
		return defaultPage, nil
	case p.Limit < 0 || p.Limit > maxPage:
		return 0, invalid("limit %d: must be from 1 to %d", p.Limit, maxPage)
	}
	return p.Limit, nil
}

const (
	defaultPage = 50
	maxPage     = 1000
)

// TenantFilter is the part of a request that narrows a list to one tenant.
type TenantFilter struct {
	// Tenant selects the rows of one tenant. Empty selects all rows that the access may see.
	Tenant string `json:"tenant,omitempty"`
}

// narrow returns the tenant of the list: the caller's own or the requested one.
func (t TenantFilter) narrow(access Access) (string, error) {
	if access.Tenant == "" || t.Tenant == "" || t.Tenant == access.Tenant {
		return or(access.Tenant, t.Tenant), nil
	}
	return "", &Problem{Code: CodeForbidden, Detail: fmt.Sprintf("your access is limited to the tenant %s", access.Tenant)}
}

// untenanted refuses what belongs to the whole installation to an access limited to one tenant.
func (a Access) untenanted(what string) error {
	if a.Tenant == "" {
		return nil
	}
	return &Problem{Code: CodeForbidden, Detail: fmt.Sprintf("%s belong to the whole installation, and your access is limited to the tenant %s", what, a.Tenant)}
}

// owns refuses an object of another tenant as if it did not exist.
func (a Access) owns(tenant, what, ref string) error {
	if a.Tenant == "" || a.Tenant == tenant {
		return nil
	}
	return notFound(what, ref)
}

func notFound(what, ref string) error { return fmt.Errorf("%s %s: %w", what, ref, inbox.ErrNotFound) }

// readPage reads a page of a list of the inbox. The list makes the cursor.
func readPage[Row any](r PageRequest, list func(at read.PageRequest) (read.Page[Row], error)) (page read.Page[Row], err error) {
	limit, err := r.limit()
	if err != nil {
		return page, err
	}
	return list(read.PageRequest{Cursor: r.After, Limit: limit})
}

// idPage reads a page of a short list that is ordered by an id, so that its cursor is an id. It asks read for one row
// more than the page has, to find out whether there are more.
func idPage[Row any](r PageRequest, list func(before inbox.ID, limit int) ([]Row, error), id func(*Row) inbox.ID) (page read.Page[Row], err error) {
	limit, err := r.limit()
	if err != nil {
		return page, err
	}
	var before inbox.ID
	if r.After != "" {
		if before, err = inbox.ParseID(r.After); err != nil {
			return page, invalid("after: not a cursor of this list; use the next of the page before")
		}
	}
	rows, err := list(before, min(limit+1, maxPage))
	if err != nil {
		return page, err
	}
	page = read.PageOf(rows, limit, func(row Row) string { return id(&row).String() })
	if limit == maxPage && len(rows) == maxPage { // one row more than maxPage cannot be read, so the next page may be empty
		page.HasMore, page.Next = true, id(&rows[maxPage-1]).String()
	}
	return page, nil
}

// mapPage converts each row of a page with show.
func mapPage[Row, Shown any](page read.Page[Row], show func(Row) Shown) read.Page[Shown] {
	out := read.Page[Shown]{Data: make([]Shown, len(page.Data)), HasMore: page.HasMore, Next: page.Next, SearchedTo: page.SearchedTo}
	for i, row := range page.Data {
		out.Data[i] = show(row)
	}
	return out
}

// whole returns the single page of a list that is always short.
func whole[Row any](rows []Row) read.Page[Row] {
	if rows == nil {
		rows = []Row{}
	}
	return read.Page[Row]{Data: rows}
}
