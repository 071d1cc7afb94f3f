// Package halve processes rows in batches and isolates the rows that make a batch fail.
package halve

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Left is an item for which processing failed, with the error.
type Left[T any] struct {
	Item T
	Err  error
}

// Each calls do with all items. If do fails because of one row ([OfOneRow]), Each calls it for
// either half, and so on until it has found the rows for which do fails. It returns these as left;
// do has succeeded for all others. Each stops at any other error of do and returns it.
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

// OfOneRow reports whether a server error may disappear if one of the rows is left out: the lock of
// a row was not obtained, or the server refused the content of a row. It returns false for errors
// that concern all rows, such as a lost connection, a full disk or the lock of a whole table.
func OfOneRow(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.SeverityUnlocalized != "ERROR" {
		return false
	}
	switch pg.Code {
	case "55P03":
		// Of the waits that a timeout ended, only a wait for a row has a context, which names the
		// tuple.
		return pg.Where != "" || pg.Routine != "ProcessInterrupts"
	case "40001", "40P01", "57014":
		return true
	}
	return strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || pg.Code == "P0001"
}
