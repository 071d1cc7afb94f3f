package console

import (
	"unicode/utf8"

	"github.com/oncegate/oncegate/internal/visible"
)

// longText is the number of characters from which a text in a table may be cut where the table has no room for it. A shorter one
// would lose more than it saves.
const longText = 14

// shape returns the class of a cell in a table: number is aligned to the right, long may be cut, and nothing is as wide as what
// it shows.
func shape(c cell) string {
	switch {
	case c.Number && c.Detail == "":
		return "number"
	case utf8.RuneCountInString(c.Text)+utf8.RuneCountInString(c.Detail) > longText:
		return "long"
	}
	return ""
}

// filled reports whether a cell shows anything.
func filled(c cell) bool {
	return c.Text != "" || c.State != "" || c.Detail != "" || len(c.Marks) > 0 || !c.At.IsZero()
}

// hover returns the whole text of a cell that may be cut. It is empty for a cell that is always whole.
func hover(c timedCell) string {
	if shape(c.cell) != "long" || !c.At.IsZero() {
		return ""
	}
	return visible.Text(join(or(c.Text, words(c.State)), c.Detail))
}

// numbers reports whether a column has numbers, so that its heading is aligned as they are.
func numbers(t *table, column int) bool {
	return len(t.Rows) > 0 && column < len(t.Rows[0]) && t.Rows[0][column].Number
}
