package inboxtest

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/read"
)

var errSearchedInPart = errors.New("the list ran out of its time, so that rows may be missing: use inboxtest.Lister, or go on from the page's cursor")

// Rows returns the rows of a page, for a test that needs no further page. A page that ended because its
// time ran out is an error.
func Rows[Row any](page read.Page[Row], err error) ([]Row, error) {
	if err == nil && page.SearchedTo != nil {
		err = errSearchedInPart
	}
	return page.Data, err
}

// Lister returns a lister for tests of the contents of lists: it has more time than [read.ListBudget],
// with which a busy machine would return only part of a page.
func Lister(pool *pgxpool.Pool) *read.Lister { return read.NewLister(pool).WithBudget(time.Minute) }
