package yamltree

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	// File is the file that was read; empty if the problem is in none.
	File string
	// Line and Column count from 1; 0 if they are not known.
	Line, Column int
	// Path leads to the value, such as sources.shop.class; empty for the document.
	Path string
	// Text says what is wrong and what is accepted.
	Text string
}

// String gives "file:line:column: path: text" without the parts that are not known.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		for _, n := range []int{p.Line, p.Column} {
			if n == 0 {
				break
			}
			b.WriteString(":" + strconv.Itoa(n))
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// Problems is the error of a document in which something is wrong: everything, in
// the order of the file.
type Problems []Problem

// Error gives one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// Report collects the problems of one document.
type Report struct {
	// File names the document in the problems.
	File string

	// Redact hides what must not be quoted, such as the credentials of addresses.
	// It defaults to quoting values as they are.
	Redact func(string) string

	problems Problems
}

// Add adds a problem that has no place in the document.
func (r *Report) Add(format string, args ...any) {
	r.problems = append(r.problems, Problem{Text: fmt.Sprintf(format, args...)})
}

// Len gives the number of problems so far.
func (r *Report) Len() int { return len(r.problems) }

// Err gives all problems as [Problems], in the order of the file; nil if there are none.
func (r *Report) Err() error {
	if len(r.problems) == 0 {
		return nil
	}
	sorted := slices.Clone(r.problems)
	slices.SortStableFunc(sorted, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return sorted
}

// Absent gives a node for a path that the document does not have: what is said of it has
// the path and no line.
func (r *Report) Absent(path string) *Node { return &Node{report: r, label: path} }

// longestQuote is how many bytes of a value a problem quotes.
const longestQuote = 60

// Quote gives a value as a problem shows it: one short line in quotation marks, redacted.
func (r *Report) Quote(value string) string {
	if r.Redact != nil {
		value = r.Redact(value)
	}
	if len(value) > longestQuote {
		value = value[:longestQuote] + "..."
	}
	return strconv.Quote(value)
}
