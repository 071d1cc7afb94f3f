package gate

import "github.com/oncegate/oncegate/inbox/internal/row"

// fewRows is the number of rows up to which the statements of the gate read their arrays by subscripts. For a lone event this
// halves the time of the insertion; at 128 rows both forms take the same.
const fewRows = 64

// statement is a statement of the gate that reads its rows from arrays, in the forms for few rows and for many.
type statement struct{ few, many string }

// newStatement makes both forms. build returns the statement with the given FROM clause, in which the rows are named k.
func newStatement[R any](columns *row.Columns[R], build func(rows string) string) statement {
	return statement{
		few:  build(columns.Subscripted() + ` AS k`),
		many: build(`unnest(` + columns.Arrays() + `) AS k (` + columns.Names() + `)`),
	}
}

// of returns the form for a number of rows.
func (s statement) of(rows int) string {
	if rows <= fewRows {
		return s.few
	}
	return s.many
}
