package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// columns declares the columns of a list. header, extra, spare, ids and whole have the meaning that they have in a [table].
type columns[Row any] struct {
	header, extra, spare, ids, whole []string

	// cells returns the values of a row, as [shell.cell] formats them.
	cells func(row *Row) []any

	// entry returns the row's entry for @1. It is nil if the rows have no ids.
	entry func(row *Row) listEntry
}

// table returns a table of the rows.
func (c *columns[Row]) table(s *shell, rows []Row) *table {
	t := &table{header: c.header, extra: c.extra, spare: c.spare, ids: c.ids, whole: c.whole}
	for i := range rows {
		values := c.cells(&rows[i])
		cells := make([]string, len(values))
		for i, value := range values {
			cells[i] = s.cell(value)
		}
		t.add(cells...)
	}
	return t
}

// in adds a column with the databases of the rows, if there is one for each.
func (t *table) in(databases []string) *table {
	if len(databases) == 0 || len(databases) != len(t.rows) {
		return t
	}
	t.header = append(slices.Clone(t.header), "DATABASE")
	for i, name := range databases {
		t.rows[i] = append(t.rows[i], name)
	}
	return t
}

// cell formats a value for a table: true as yes, and false and nil as nothing.
func (s *shell) cell(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case time.Time:
		if s.output == "csv" {
			return v.UTC().Format(csvTime)
		}
		return s.tableClock(v)
	case *time.Time:
		if v == nil {
			return ""
		}
		return s.cell(*v)
	case *inbox.ID:
		return optionalID(v)
	case []string:
		return strings.Join(v, ", ")
	case bool:
		return onlyIf(v, "yes")
	}
	return fmt.Sprint(value)
}

// onlyIf returns text if yes is true, and nothing otherwise.
func onlyIf(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}
