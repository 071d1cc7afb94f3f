// Package halve keeps one row that cannot be worked on from keeping others from it.
package halve

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Left is an item that was left out, and why.
type Left[T any] struct {
	Item T
	Err  error
}

// Each does something with all items, in one go if it can. If do fails because of one row
// ([OfOneRow]), it is called for either half, until the rows are found that it fails for. They
// are left out, and the others are done. Each ends at any other error of do.
//
// Each calls do again with items for which it failed, so a call that fails must change nothing.
func Each[T any](items []T, do func([]T) error) (left []Left[T], err error) {
	if len(items) == 0 {
		return nil, nil
	}
	err = do(items)
	switch {
	case err == nil:
		return nil, nil
	case !OfOneRow(err):
		return nil, err
	case len(items) == 1:
		return []Left[T]{{items[0], err}}, nil
	}
	half := len(items) / 2
	if left, err = Each(items[:half], do); err != nil {
		return left, err
	}
	rest, err := Each(items[half:], do)
	return append(left, rest...), err
}

// OfOneRow reports whether an error of the server may be gone without one of the rows: its lock
// was not obtained, or something about its content was refused. An error that concerns all rows
// is none: a connection that is gone, a full disk, the lock of a whole table.
func OfOneRow(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.SeverityUnlocalized != "ERROR" {
		return false
	}
	switch pg.Code {
	case "55P03":
		// Of the waits that a timeout ended only one for a row has a context, which names its tuple.
		return pg.Where != "" || pg.Routine != "ProcessInterrupts"
	case "40001", "40P01", "57014":
		return true
	}
	return strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || pg.Code == "P0001"
}
