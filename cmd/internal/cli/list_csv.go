package cli

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
)

// csvTime is how CSV has times, which spreadsheets and databases read.
const csvTime = "2006-01-02T15:04:05.000Z07:00"

// writeCSV writes the table as RFC 4180 describes it, with the names of the columns in the first row.
func (t *table) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{columnNames(t.header)}
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = noFormula(cell)
		}
		rows = append(rows, cells)
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("writing csv: %w", err)
	}
	return nil
}

// noFormula puts an apostrophe before a text that a spreadsheet would calculate, because senders choose some of the texts. See
// https://owasp.org/www-community/attacks/CSV_Injection.
func noFormula(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
