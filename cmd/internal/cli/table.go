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
	"github.com/oncegate/oncegate/internal/visible"
)

// clean makes control characters visible, so that an id or type chosen by a sender cannot move the
// cursor, color the screen or add a line.
func clean(s string) string { return visible.Text(s) }

// cleanURL is like clean, for an address. It also removes credentials.
func cleanURL(s string) string { return clean(config.RedactURLs(s)) }

// table formats rows for the width of the terminal. It first leaves out the columns in spare, in
// order, and then shortens text, which ends in "...". It never shortens values that the user types
// into the next command: if they do not fit, it writes them on a separate line below the row.
type table struct {
	header []string
	rows   [][]string

	// extra lists the columns that are only shown if the user asks for them, by --columns or --wide, and in CSV.
	extra []string

	// spare lists the columns that may be left out, in the order in which they are left out.
	spare []string

	// ids lists the columns whose values the user types into the next command. They are neither
	// shortened nor left out.
	ids []string

	// whole lists the other columns that are never shortened, such as times and states.
	whole []string
}

func (t *table) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = clean(cell)
	}
	t.rows = append(t.rows, cells)
}

const (
	gutter   = 2
	minWidth = 10
)

// write writes the table for a terminal of width columns. A width of 0 means no limit. It returns
// the names of the non-empty columns that it left out.
func (t *table) write(w io.Writer, width int) (left []string) {
	l := t.fit(width)
	for _, row := range append([][]string{t.header}, t.rows...) {
		writeLine(w, row, l.columns, l.widths, "")
		for _, line := range l.below {
			writeLine(w, row, line, l.widths, strings.Repeat(" ", l.indent))
		}
	}
	return l.left
}

// writeLine writes some columns of a row.
func writeLine(w io.Writer, row []string, columns, widths []int, indent string) {
	var b strings.Builder
	b.WriteString(indent)
	for n, i := range columns {
		cell := cut(row[i], widths[i])
		b.WriteString(cell)
		if n < len(columns)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gutter))
		}
	}
	if text := strings.TrimRight(b.String(), " "); text != "" || indent == "" {
		fmt.Fprintln(w, text)
	}
}

// layout describes how a table is written.
type layout struct {
	columns, widths []int
	below           [][]int // the columns of additional lines
	indent          int     // of the additional lines
	left            []string
}

// fit chooses the columns, their widths and their lines.
func (t *table) fit(width int) layout {
	l := layout{widths: make([]int, len(t.header))}
	for i, name := range t.header {
		l.columns = append(l.columns, i)
		l.widths[i] = utf8.RuneCountInString(name)
		for _, row := range t.rows {
			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	fits := func(columns, widths []int) bool { return width <= 0 || total(columns, widths) <= width }
	if fits(l.columns, l.widths) {
		return l
	}
	l.columns = slices.DeleteFunc(l.columns, t.empty)
	if fits(l.columns, l.widths) {
		return l
	}
	// First try one line without the spare columns. Otherwise write the ids below, which leaves
	// room for more of the other columns.
	spared, left := t.leaveOut(l.columns, l.widths, func(columns []int) bool { return fits(columns, l.widths) })
	if narrow, ok := t.narrow(spared, l.widths, width); ok {
		l.columns, l.widths, l.left = spared, narrow, left
		return l
	}
	first := slices.DeleteFunc(slices.Clone(l.columns), t.isID)
	ids := slices.DeleteFunc(slices.Clone(l.columns), func(i int) bool { return !t.isID(i) })
	if len(first) > 0 {
		l.indent = gutter
		if t.header[first[0]] == numberColumn {
			l.indent += l.widths[first[0]]
		}
		l.below = lines(ids, l.widths, width-l.indent)
	}
	l.columns, l.left = t.leaveOut(first, l.widths, func(columns []int) bool { return fits(columns, l.widths) })
	l.widths, _ = t.narrow(l.columns, l.widths, width)
	return l
}

// numberColumn is the header of the column with @1, @2 and so on.
const numberColumn = "#"

func (t *table) isID(i int) bool { return slices.Contains(t.ids, t.header[i]) }

// empty reports whether a column is empty in every row.
func (t *table) empty(i int) bool {
	return len(t.rows) > 0 && !slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" })
}

// leaveOut leaves out spare columns, one after another, until the others fit.
func (t *table) leaveOut(columns, widths []int, fits func([]int) bool) (kept []int, left []string) {
	kept = slices.Clone(columns)
	for _, name := range t.spare {
		if fits(kept) {
			break
		}
		if at := slices.IndexFunc(kept, func(i int) bool { return t.header[i] == name }); at >= 0 {
			kept, left = slices.Delete(kept, at, at+1), append(left, name)
		}
	}
	return kept, left
}

// narrow repeatedly shortens the widest column that may be shortened. It reports whether all
// columns then fit.
func (t *table) narrow(columns, widths []int, width int) ([]int, bool) {
	widths = slices.Clone(widths)
	for total(columns, widths) > width {
		widest := -1
		for _, i := range columns {
			if t.isID(i) || slices.Contains(t.whole, t.header[i]) || t.header[i] == numberColumn || widths[i] <= max(minWidth, utf8.RuneCountInString(t.header[i])) {
				continue
			}
			if widest < 0 || widths[i] > widths[widest] {
				widest = i
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
	}
	return widths, true
}

// lines distributes columns over as few lines of the width as possible, in order.
func lines(columns, widths []int, width int) [][]int {
	var out [][]int
	for _, i := range columns {
		if n := len(out); n > 0 && total(append(slices.Clone(out[n-1]), i), widths) <= width {
			out[n-1] = append(out[n-1], i)
			continue
		}
		out = append(out, []int{i})
	}
	return out
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

// width returns the width of the terminal, or 0 if stdout is not a terminal and nothing must be
// shortened, because the reader of a pipe needs complete values. COLUMNS overrides both.
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

// show writes the table, as a table or as CSV, or v as JSON, depending on --output.
func (s *shell) show(t *table, v any) error {
	if s.output == "json" {
		return s.json(v)
	}
	if s.output == "csv" {
		return t.writeCSV(s.out)
	}
	t.write(s.out, s.width())
	return nil
}

func (s *shell) json(v any) error {
	encoder := json.NewEncoder(visible.NewWriter(s.out))
	if !s.jsonLines {
		encoder.SetIndent("", "  ")
	}
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("writing json: %w", err)
	}
	return nil
}

// pair is one line of a page about a single object.
type pair struct{ name, value string }

// page writes names and values, one pair per line. It omits empty values.
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

// nonzero formats n, or returns "" for 0 so that page omits it.
func nonzero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
