package yamltree

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one mistake in a document.
type Problem struct {
	// File is the file that was read, or empty if the problem is not in a file.
	File string
	// Line and Column count from 1. They are 0 if the position is not known.
	Line, Column int
	// Path is the path of the value, such as sources.shop.class. It is empty for the whole
	// document.
	Path string
	// Text describes the mistake and the accepted values.
	Text string
}

// String returns "file:line:column: path: text" without the parts that are not known.
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

// Problems is the error for a document with mistakes. It contains every problem, in the order of
// the file.
type Problems []Problem

// Error returns one line per problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// Report collects the problems of one document.
type Report struct {
	// File is the name of the document in the problems.
	File string

	// Redact removes secrets, such as credentials in URLs, from quoted values. If it is nil, values
	// are quoted unchanged.
	Redact func(string) string

	// Unplaced leaves lines and columns out of the problems. Set it for a document that users do not see as text.
	Unplaced bool

	problems Problems
	parts    []*Report
}

// Part returns a report for another document whose problems belong to this report too.
func (r *Report) Part(file string) *Report {
	part := &Report{File: file, Redact: r.Redact}
	r.parts = append(r.parts, part)
	return part
}

// Add adds a problem that has no position in the document.
func (r *Report) Add(format string, args ...any) {
	r.problems = append(r.problems, Problem{Text: fmt.Sprintf(format, args...)})
}

// Len returns the number of problems so far.
func (r *Report) Len() int {
	n := len(r.problems)
	for _, part := range r.parts {
		n += part.Len()
	}
	return n
}

// all returns the problems of the report and of its parts.
func (r *Report) all() Problems {
	out := slices.Clone(r.problems)
	for _, part := range r.parts {
		out = append(out, part.all()...)
	}
	return out
}

// Err returns all problems as [Problems], in the order of the file, or nil if there are none.
func (r *Report) Err() error {
	sorted := r.all()
	if len(sorted) == 0 {
		return nil
	}
	slices.SortStableFunc(sorted, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return sorted
}

// Absent returns a node for a path that the document does not contain. Problems reported for it
// have the path and no line.
func (r *Report) Absent(path string) *Node { return &Node{report: r, label: path} }

// longestQuote is the most bytes of a value that a problem quotes.
const longestQuote = 60

// Quote returns a value in the form that problems show: one short line in quotation marks,
// redacted.
func (r *Report) Quote(value string) string {
	if r.Redact != nil {
		value = r.Redact(value)
	}
	if len(value) > longestQuote {
		value = value[:longestQuote] + "..."
	}
	return strconv.Quote(value)
}
