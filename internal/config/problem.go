package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong.
type Problem struct {
	// File is the configuration file; empty if the problem is the environment's.
	File string
	// Line counts from 1; 0 if the problem is not in the file.
	Line int
	Text string
}

// String gives "file:line: text".
func (p Problem) String() string {
	switch {
	case p.File == "":
		return p.Text
	case p.Line == 0:
		return p.File + ": " + p.Text
	default:
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
	}
}

// Problems is the error of a wrong configuration: everything that is wrong, in
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

func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return p
}
