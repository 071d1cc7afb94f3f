package row

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/internal/pgtext"
)

// constant is text of the program. Only an untyped constant converts to it implicitly, so that no text from outside can
// become part of a statement.
type constant string

// maxArgument bounds a text that is compared with a column: no column by which a list is narrowed contains a longer
// one.
const maxArgument = 1024

// Statement is a statement that is composed of constants. It contains a predicate only if the predicate is needed: one
// statement for all filters, with `$1 IS NULL OR ...`, would have one generic plan for all of them, which walks the
// whole table for the rarest filter. The zero Statement is empty.
type Statement struct {
	text strings.Builder
	args []any
}

// Add appends text. Each ? in it becomes the number of the next parameter, whose value is the next argument. It panics
// if the numbers of arguments and question marks differ, because the statement would read wrong values.
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

// argument makes a text that PostgreSQL accepts; a text that it could not store equals no stored one.
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

// And appends the predicates, each after an AND.
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

// SQL returns the text and the arguments.
func (s *Statement) SQL() (text string, args []any) { return s.text.String(), s.args }

// Predicates are the conditions that a filter sets, in their order in the statement.
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

// AddAround appends one condition that contains others: they are put, joined by AND, between before and after. Without
// others it appends nothing.
func (p *Predicates) AddAround(before constant, inside Predicates, after constant) {
	if len(inside) == 0 {
		return
	}
	*p = append(*p, func(s *Statement) { s.Add(before).join(inside).Add(after) })
}

// With returns a new list of the predicates followed by others.
func (p Predicates) With(others ...func(*Statement)) Predicates {
	out := make(Predicates, 0, len(p)+len(others))
	return append(append(out, p...), others...)
}

// Is makes one condition for [Predicates.With].
func Is(text constant, args ...any) func(*Statement) {
	return func(s *Statement) { s.Add(text, args...) }
}
