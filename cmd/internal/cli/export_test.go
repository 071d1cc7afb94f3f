package cli

import "strings"

// Clean is what makes control characters visible.
func Clean(s string) string { return clean(s) }

// Table lays out rows for a terminal of the given width.
func Table(header []string, rows [][]string, width int) string {
	t := &table{header: header}
	for _, row := range rows {
		t.add(append([]string{}, row...)...)
	}
	var b strings.Builder
	t.write(&b, width)
	return b.String()
}

// Report writes what the user is told of an error.
func Report(err error) string {
	var b strings.Builder
	report(&b, err)
	return b.String()
}
