package row

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/internal/pgtext"
)

// constant is text of the program. Only an untyped constant converts to it by itself, so that no text that was read
// from somewhere can become part of a statement.
type constant string

// maxArgument bounds a text that is compared with a column: no column that a list is narrowed by holds more.
const maxArgument = 1024

// Statement is a statement that is put together out of constants. It holds a predicate only if the predicate is
// needed: one statement for all filters, with `$1 IS NULL OR ...`, has one generic plan for all of them, which walks the
// whole table for the rarest. The zero Statement is empty.
type Statement struct {
	text strings.Builder
	args []any
}

// Add appends text. Each ? in it becomes the number of the next parameter, whose value is the next argument. It panics
// if there are more or fewer arguments than question marks: the statement would read other values than were meant.
func (s *Statement) Add(text constant, args ...any) *Statement {
	parts := strings.Split(string(text), "?")
	if len(parts) != len(args)+1 {
		panic(fmt.Sprintf("row: %d arguments for %d parameters in %q", len(args), len(parts)-1, text))
	}
	for i, part := range parts {
		if i > 0 {
			s.args = append(s.args, argument(args[i-1]))
			s.text.WriteString("$" + strconv.Itoa(len(s.args)))
		}
		s.text.WriteString(part)
	}
	return s
}

// argument makes a text one that PostgreSQL takes; one that it could not store equals none that it has.
func argument(arg any) any {
	if text, ok := arg.(string); ok {
		return pgtext.Clean(text, maxArgument)
	}
	return arg
}

// Where appends " WHERE" with the predicates, or nothing if there are none.
func (s *Statement) Where(p Predicates) *Statement {
	if len(p) == 0 {
		return s
	}
	s.text.WriteString(" WHERE ")
	return s.join(p)
}

// And appends the predicates, each behind an AND.
func (s *Statement) And(p Predicates) *Statement {
	if len(p) == 0 {
		return s
	}
	s.text.WriteString(" AND ")
	return s.join(p)
}

func (s *Statement) join(p Predicates) *Statement {
	for i, predicate := range p {
		if i > 0 {
			s.text.WriteString(" AND ")
		}
		predicate(s)
	}
	return s
}

// SQL gives the text and the arguments.
func (s *Statement) SQL() (text string, args []any) { return s.text.String(), s.args }

// Predicates are the conditions that a filter sets, in the order in which they stand.
type Predicates []func(*Statement)

// Add appends a condition; see [Statement.Add] for its parameters.
func (p *Predicates) Add(text constant, args ...any) {
	*p = append(*p, func(s *Statement) { s.Add(text, args...) })
}

// AddIf appends a condition if it is set.
func (p *Predicates) AddIf(set bool, text constant, args ...any) {
	if set {
		p.Add(text, args...)
	}
}

// AddAround appends one condition that has others inside: those stand, with AND between them, in the place of before
// and after's gap. Without others it appends nothing.
func (p *Predicates) AddAround(before constant, inside Predicates, after constant) {
	if len(inside) == 0 {
		return
	}
	*p = append(*p, func(s *Statement) { s.Add(before).join(inside).Add(after) })
}

// With gives the predicates and others behind them, in a list of its own.
func (p Predicates) With(others ...func(*Statement)) Predicates {
	out := make(Predicates, 0, len(p)+len(others))
	return append(append(out, p...), others...)
}

// Is makes one condition for [Predicates.With].
func Is(text constant, args ...any) func(*Statement) {
	return func(s *Statement) { s.Add(text, args...) }
}
