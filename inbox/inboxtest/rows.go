package inboxtest

import "github.com/oncegate/oncegate/inbox"

// Rows gives the rows of a page, for a test that wants no further one.
func Rows[Row any](page inbox.Page[Row], err error) ([]Row, error) { return page.Data, err }
