package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/visible"
)

// clean makes control characters visible, so that what a sender chose as an id
// or a type cannot move the cursor, colour the screen or add a line.
func clean(s string) string { return visible.Text(s) }

// cleanURL is clean for an address, whose credentials a message does not repeat.
func cleanURL(s string) string { return clean(config.RedactURLs(s)) }

// table lays out rows so that they fit the terminal: empty columns go first,
// then those that can be missed, then the widest give way, and what does not
// fit ends in "...".
type table struct {
	header []string
	rows   [][]string

	// spare are the columns that can be missed, the first to go first.
	spare []string
	// whole are the columns that are cut last, but for what is longer than a uuid:
	// what is typed into the next command.
	whole []string
}

func (t *table) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = clean(cell)
	}
	t.rows = append(t.rows, cells)
}

const (
	gutter    = 2
	minWidth  = 4
	uuidWidth = 36
)

// write lays the table out for a terminal of width columns; 0 is as wide as it takes.
func (t *table) write(w io.Writer, width int) {
	columns := make([]int, len(t.header)) // those that are shown
	widths := make([]int, len(t.header))
	for i, name := range t.header {
		columns[i], widths[i] = i, utf8.RuneCountInString(name)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	if width > 0 {
		columns = t.fit(columns, widths, width)
	}
	for _, row := range append([][]string{t.header}, t.rows...) {
		var b strings.Builder
		for n, i := range columns {
			cell := cut(row[i], widths[i])
			b.WriteString(cell)
			if n < len(columns)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gutter))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// fit drops columns and narrows widths until the table fits.
func (t *table) fit(columns, widths []int, width int) []int {
	drop := func(when func(i int) bool) {
		if total(columns, widths) > width {
			columns = slices.DeleteFunc(columns, when)
		}
	}
	drop(func(i int) bool {
		return len(t.rows) > 0 && !slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" })
	})
	for _, name := range t.spare {
		drop(func(i int) bool { return t.header[i] == name })
	}
	for _, i := range columns {
		if total(columns, widths) > width && slices.Contains(t.whole, t.header[i]) {
			widths[i] = min(widths[i], uuidWidth)
		}
	}
	for _, spareWhole := range []bool{true, false} {
		for total(columns, widths) > width {
			widest := -1
			for _, i := range columns {
				if spareWhole && slices.Contains(t.whole, t.header[i]) {
					continue
				}
				if widest < 0 || widths[i] > widths[widest] {
					widest = i
				}
			}
			if widest < 0 || widths[widest] <= minWidth {
				break
			}
			widths[widest]--
		}
	}
	return columns
}

func total(columns, widths []int) int {
	sum := gutter * (len(columns) - 1)
	for _, i := range columns {
		sum += widths[i]
	}
	return sum
}

func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := []rune(s)
	if n <= 3 {
		return string(runes[:n])
	}
	return string(runes[:n-3]) + "..."
}

// width is the terminal's, or 0 where there is none and nothing is to be cut:
// a pipe wants whole values. COLUMNS overrides both.
func (s *shell) width() int {
	if n, err := strconv.Atoi(s.env("COLUMNS")); err == nil && n > 20 {
		return n
	}
	f, ok := s.out.(*os.File)
	if !ok {
		return 0
	}
	return terminalWidth(f)
}

// show writes rows as the output flag says: the table, or v as JSON.
func (s *shell) show(t *table, v any) error {
	if s.output == "json" {
		return s.json(v)
	}
	t.write(s.out, s.width())
	return nil
}

func (s *shell) json(v any) error {
	encoder := json.NewEncoder(visible.NewWriter(s.out))
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("writing json: %w", err)
	}
	return nil
}

// pair is one line of a page about one thing.
type pair struct{ name, value string }

// page writes names and values under one another; empty values are left out.
func page(w io.Writer, pairs []pair) {
	longest := 0
	for _, p := range pairs {
		longest = max(longest, len(p.name))
	}
	for _, p := range pairs {
		if p.value != "" {
			fmt.Fprintf(w, "%-*s  %s\n", longest, p.name, clean(p.value))
		}
	}
}

// nonzero leaves out of a page what there was none of.
func nonzero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
