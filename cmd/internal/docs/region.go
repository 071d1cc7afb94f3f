package docs

import (
	"fmt"
	"regexp"
	"strings"
)

// region matches a generated region of a page. The region is between two comments, which rendered
// Markdown does not show:
//
//	<!-- generated: metrics -->
//	<!-- generated: end -->
var region = regexp.MustCompile(`(?s)(<!-- generated: ([a-z-]+) -->\n)(.*?)(<!-- generated: end -->)`)

// Fill replaces the content of every region of the page by the table with the region's name.
func Fill(page string, tables map[string]string) (string, error) {
	var missing error
	filled := region.ReplaceAllStringFunc(page, func(text string) string {
		m := region.FindStringSubmatch(text)
		table, ok := tables[m[2]]
		if !ok {
			missing = fmt.Errorf("no generator makes the region %q", m[2])
		}
		return m[1] + "\n" + table + "\n" + m[4]
	})
	return filled, missing
}

// Regions returns the names of the regions of a page.
func Regions(page string) []string {
	var names []string
	for _, m := range region.FindAllStringSubmatch(page, -1) {
		names = append(names, m[2])
	}
	return names
}

// table returns a Markdown table.
func table(header []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteByte('|')
		for _, cell := range cells {
			b.WriteString(" " + strings.ReplaceAll(strings.Join(strings.Fields(cell), " "), "|", `\|`) + " |")
		}
		b.WriteByte('\n')
	}
	line(header)
	b.WriteString("|" + strings.Repeat(" --- |", len(header)) + "\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

// code marks text as code. It returns "" for "".
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
