package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// reader collects problems while the tree of the file is walked. It reads the
// tree itself and not through struct tags, because a decoder stops at its first
// problem and forgets the lines.
type reader struct {
	file     string
	problems Problems
	warnings []string
	broken   map[string]bool // custom providers with problems of their own
	env      *environment
	handlers bool // whether a route without a target is carried out by a Go function
}

// at reports a problem at the line of n.
func (r *reader) at(n ast.Node, format string, args ...any) {
	r.line(lineOf(n), format, args...)
}

func (r *reader) line(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// environment reports a problem of the environment.
func (r *reader) environ(format string, args ...any) {
	r.problems = append(r.problems, Problem{Text: fmt.Sprintf(format, args...)})
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 0
	}
	return n.GetToken().Position.Line
}

// field is one key of a mapping with its value.
type field struct {
	name  string
	key   ast.Node
	value ast.Node
}

// fields reads the keys of a mapping; a key that occurs twice is a problem.
func (r *reader) fields(n ast.Node, where string) []field {
	switch n.(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		r.at(n, "%s: anchors, aliases and tags are not supported; write the value out", where)
		return nil
	}
	mapping, ok := n.(ast.MapNode)
	if !ok {
		r.at(n, "%s: must be a mapping (key: value), not %s", where, describe(n))
		return nil
	}
	var out []field
	seen := map[string]int{}
	for it := mapping.MapRange(); it.Next(); {
		key := it.Key()
		if key.IsMergeKey() {
			r.at(key, "%s: merge keys (<<) are not supported; write the keys out", where)
			continue
		}
		name := scalar(key)
		if first, twice := seen[name]; twice {
			r.at(key, "%s: duplicate name \"%s\", first on line %d", where, visible(name), first)
			continue
		}
		seen[name] = lineOf(key)
		out = append(out, field{name: name, key: key, value: it.Value()})
	}
	return out
}

// object reads a mapping whose keys are known; any other key is a problem.
func (r *reader) object(n ast.Node, where string, known map[string]func(f field)) {
	for _, f := range r.fields(n, where) {
		read, ok := known[f.name]
		if !ok {
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			r.at(f.key, "%s: unknown key \"%s\"; known are %s", where, visible(f.name), strings.Join(names, ", "))
			continue
		}
		read(f)
	}
}

// list reads a sequence.
func (r *reader) list(n ast.Node, where string) []ast.Node {
	if _, null := n.(*ast.NullNode); null {
		return nil
	}
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		r.at(n, "%s: must be a list, not %s", where, describe(n))
		return nil
	}
	return sequence.Values
}

// text reads a scalar as it is written.
func (r *reader) text(n ast.Node, where string) (string, bool) {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return scalar(n), true
	case *ast.NullNode:
		r.at(n, "%s: is empty", where)
	default:
		r.at(n, "%s: must be a single value, not %s", where, describe(n))
	}
	return "", false
}

// parsed reads a scalar and turns it into a T.
func parsed[T any](r *reader, n ast.Node, where string, into *T, parse func(string) (T, error)) {
	text, ok := r.text(n, where)
	if !ok {
		return
	}
	value, err := parse(text)
	if err != nil {
		r.at(n, "%s: \"%s\": %v", where, visible(text), err)
		return
	}
	*into = value
}

func (r *reader) duration(into *time.Duration, where string) func(field) {
	return func(f field) { parsed(r, f.value, where+"."+f.name, into, positiveDuration) }
}

func (r *reader) count(into *int, where string, least int) func(field) {
	return func(f field) {
		parsed(r, f.value, where+"."+f.name, into, func(s string) (int, error) { return wholeNumber(s, least) })
	}
}

func (r *reader) boolean(into *bool, where string) func(field) {
	return func(f field) { parsed(r, f.value, where+"."+f.name, into, trueOrFalse) }
}

func positiveDuration(s string) (time.Duration, error) {
	d, err := ParseDuration(s)
	if err == nil && d == 0 {
		err = fmt.Errorf("must be longer than zero")
	}
	return d, err
}

func wholeNumber(s string, least int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > 1<<30 {
		return 0, fmt.Errorf("not a whole number from %d", least)
	}
	return n, nil
}

func trueOrFalse(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("neither true nor false")
}

func scalar(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.MappingKeyNode:
		return scalar(n.Value)
	}
	return n.GetToken().Value
}

func describe(n ast.Node) string {
	switch n.(type) {
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode, nil:
		return "nothing"
	}
	return "a single value"
}

// visible keeps what a problem quotes to one short line, without credentials of addresses.
func visible(s string) string {
	s = RedactURLs(s)
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}
