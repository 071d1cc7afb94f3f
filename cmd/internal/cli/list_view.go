package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// listView contains the flags that determine how a list is shown.
type listView struct {
	wide     bool
	columns  []string
	remember bool
}

// addViews adds the flags of the view to every command that shows a list.
func (s *shell) addViews(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		s.addViews(sub)
	}
	if !isList(cmd) {
		return
	}
	cmd.Flags().BoolVar(&s.view.wide, "wide", false, "every column in full, however wide the terminal is")
	cmd.Flags().StringSliceVar(&s.view.columns, "columns", nil, "only these columns, in this order, such as id,source")
	cmd.Flags().BoolVar(&s.view.remember, "remember", false, "remember the rows for @1, @2 and so on, as is done on a terminal anyway")
}

// isList reports whether a command shows a list.
func isList(cmd *cobra.Command) bool {
	return cmd.HasParent() && !cmd.HasSubCommands() && (cmd.Name() == "list" || cmd.Name() == "items")
}

// checkView returns an error for a view that the list does not support, before anything is read.
func (s *shell) checkView(t *table, f *pageFlags, cmd *cobra.Command) error {
	if f.all && cmd.Flags().Changed("limit") {
		return usagef("--all shows every page: leave out --limit")
	}
	if len(s.view.columns) == 0 {
		return nil
	}
	if s.output == "json" {
		return usagef("--columns is for tables: leave it out, or leave out --output")
	}
	for _, name := range s.view.columns {
		if t.column(name) < 0 {
			return usagef("--columns: %q is no column of this list; it has %s", clean(name), strings.Join(columnNames(t.header), ", "))
		}
	}
	return nil
}

// column returns the index of a column by its name, ignoring case, with - or _ for a space.
func (t *table) column(name string) int {
	return slices.IndexFunc(t.header, func(header string) bool { return columnName(header) == columnName(name) })
}

func columnName(header string) string {
	return strings.NewReplacer(" ", "-", "_", "-").Replace(strings.ToLower(strings.TrimSpace(header)))
}

func columnNames(header []string) []string {
	out := make([]string, len(header))
	for i, name := range header {
		out[i] = columnName(name)
	}
	return out
}

// pick returns a table with only the named columns, in the given order.
func (t *table) pick(names []string) *table {
	out := &table{ids: t.ids, whole: t.whole}
	at := make([]int, len(names))
	for i, name := range names {
		at[i] = t.column(name)
		out.header = append(out.header, t.header[at[i]])
	}
	for _, row := range t.rows {
		cells := make([]string, len(at))
		for i, column := range at {
			cells[i] = row[column]
		}
		out.rows = append(out.rows, cells)
	}
	return out
}

// number adds a column with @1, @2 and so on.
func (t *table) number() {
	t.header = append([]string{numberColumn}, t.header...)
	for i, row := range t.rows {
		t.rows[i] = append([]string{fmt.Sprintf("@%d", i+1)}, row...)
	}
}

// drawList writes the table of a list and reports the columns that it left out. CSV has every column.
func (s *shell) drawList(t *table, numbered bool) error {
	if len(s.view.columns) > 0 {
		t = t.pick(s.view.columns)
	}
	if s.output == "csv" {
		return t.writeCSV(s.out)
	}
	width := s.width()
	switch {
	case s.view.wide:
		width = 0
	case len(s.view.columns) == 0:
		spare := t.spare
		t = t.pick(slices.DeleteFunc(slices.Clone(t.header), func(name string) bool { return slices.Contains(t.extra, name) }))
		t.spare = spare
	}
	if numbered {
		t.number()
	}
	if left := t.write(s.out, width); len(left) > 0 {
		fmt.Fprintf(s.err, "oncegate: also: %s; --wide or --columns shows them\n", strings.Join(left, ", "))
	}
	return nil
}
