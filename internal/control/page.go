package control

import (
	"fmt"
	"strconv"

	"github.com/oncegate/oncegate/inbox"
)

// PageRequest is how every list is asked for its pages.
type PageRequest struct {
	// Limit is the most rows of the page, from 1 to 1,000; 0 is 50.
	Limit int `json:"limit,omitempty"`

	// After is the cursor of the page before: its next. It belongs to the same filter.
	After string `json:"after,omitempty"`

	// Behind is the id of the last row of the page before, for the command line on the database, which has taken ids for longer
	// than there have been cursors. It counts where After is empty.
	Behind string `json:"-"`
}

// limit gives the size of the page, or refuses it.
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
	// Tenant is whose rows are wanted; empty is everybody's that the access may see.
	Tenant string `json:"tenant,omitempty"`
}

// narrow gives the tenant that a list is narrowed to: the caller's own, or the one that is asked for.
func (t TenantFilter) narrow(access Access) (string, error) {
	if access.Tenant == "" || t.Tenant == "" || t.Tenant == access.Tenant {
		return or(access.Tenant, t.Tenant), nil
	}
	return "", &Problem{Code: CodeForbidden, Detail: fmt.Sprintf("your access is limited to the tenant %s", access.Tenant)}
}

// untenanted refuses an access that is limited to one tenant for what belongs to the whole installation.
func (a Access) untenanted(what string) error {
	if a.Tenant == "" {
		return nil
	}
	return &Problem{Code: CodeForbidden, Detail: fmt.Sprintf("%s belong to the whole installation, and your access is limited to the tenant %s", what, a.Tenant)}
}

// owns refuses a thing of another tenant as if it were not there.
func (a Access) owns(tenant, what, ref string) error {
	if a.Tenant == "" || a.Tenant == tenant {
		return nil
	}
	return notFound(what, ref)
}

func notFound(what, ref string) error { return fmt.Errorf("%s %s: %w", what, ref, inbox.ErrNotFound) }

// readPage reads a page of a list of the inbox, whose cursor the list makes.
func readPage[Row any](r PageRequest, read func(at inbox.PageRequest) (inbox.Page[Row], error)) (page inbox.Page[Row], err error) {
	limit, err := r.limit()
	if err != nil {
		return page, err
	}
	at := inbox.PageRequest{Cursor: r.After, Limit: limit}
	if r.After == "" && r.Behind != "" {
		if at.Before, err = inbox.ParseID(r.Behind); err != nil {
			return page, invalid("%v", err)
		}
	}
	return read(at)
}

// readNumberPage is readPage for a list whose rows have numbers for ids.
func readNumberPage[Row any](r PageRequest, read func(cursor string, after int64, limit int) (inbox.Page[Row], error)) (page inbox.Page[Row], err error) {
	limit, err := r.limit()
	if err != nil {
		return page, err
	}
	var after int64
	if r.After == "" && r.Behind != "" {
		if after, err = strconv.ParseInt(r.Behind, 10, 64); err != nil {
			return page, invalid("%q is not the id of a row", r.Behind)
		}
	}
	return read(r.After, after, limit)
}

// idPage reads a page of a list that is ordered by an id and short, so that its cursor is an id. read is asked for one row
// more than the page has: whether it comes says whether there are more.
func idPage[Row any](r PageRequest, read func(before inbox.ID, limit int) ([]Row, error), id func(*Row) inbox.ID) (page inbox.Page[Row], err error) {
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
	rows, err := read(before, min(limit+1, maxPage))
	if err != nil {
		return page, err
	}
	page = inbox.PageOf(rows, limit, func(row Row) string { return id(&row).String() })
	if limit == maxPage && len(rows) == maxPage { // one more cannot be asked for: the next page may be empty
		page.HasMore, page.Next = true, id(&rows[maxPage-1]).String()
	}
	return page, nil
}

// mapPage makes each row of a page one as it is shown.
func mapPage[Row, Shown any](page inbox.Page[Row], show func(Row) Shown) inbox.Page[Shown] {
	out := inbox.Page[Shown]{Data: make([]Shown, len(page.Data)), HasMore: page.HasMore, Next: page.Next, SearchedTo: page.SearchedTo}
	for i, row := range page.Data {
		out.Data[i] = show(row)
	}
	return out
}

// whole is the one page of a list that is always short.
func whole[Row any](rows []Row) inbox.Page[Row] {
	if rows == nil {
		rows = []Row{}
	}
	return inbox.Page[Row]{Data: rows}
}
