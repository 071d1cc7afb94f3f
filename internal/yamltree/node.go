package yamltree

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

type kind int

const (
	empty kind = iota
	scalar
	list
	mapping
	unsupported // reported already
)

// Node is a value in a document: nothing, a single value, a list or a mapping.
type Node struct {
	report   *Report
	parent   *Node
	name     string // of a member of a mapping
	label    string // in the path
	kind     kind
	text     string
	children []*Node
	// hasProblem says that something in it or below it is wrong, and suggested are the keys that
	// may have been meant by unknown ones.
	hasProblem bool
	suggested  []string

	line, column       int
	keyLine, keyColumn int
}

// Name is the key of a member of a mapping, or what [Node.Rename] made of it.
func (n *Node) Name() string { return n.name }

// Line is the line of the value; 0 if it is not known.
func (n *Node) Line() int { return n.line }

// KeyLine is the line of the key; 0 if there is none.
func (n *Node) KeyLine() int { return n.keyLine }

// Path leads from the document to the node: keys joined by dots, and [i] for the
// elements of lists.
func (n *Node) Path() string {
	above := ""
	if n.parent != nil {
		above = n.parent.Path()
	}
	switch {
	case above == "":
		return n.label
	case n.label == "" || n.label[0] == '[':
		return above + n.label
	}
	return above + "." + n.label
}

// Rename gives an element of a list a name, by which paths call it from now on.
func (n *Node) Rename(name string) { n.name, n.label = name, name }

func itemLabel(i int) string { return "[" + strconv.Itoa(i) + "]" }

// IsEmpty reports whether there is no value, or null.
func (n *Node) IsEmpty() bool { return n == nil || n.kind == empty }

// IsScalar reports whether the node is a single value.
func (n *Node) IsScalar() bool { return n != nil && n.kind == scalar }

// IsList reports whether the node is a list.
func (n *Node) IsList() bool { return n != nil && n.kind == list }

// IsMapping reports whether the node is a mapping.
func (n *Node) IsMapping() bool { return n != nil && n.kind == mapping }

// Value gives a single value as it is written; empty for anything else. It reports nothing.
func (n *Node) Value() string {
	if n == nil {
		return ""
	}
	return n.text
}

// Member gives the value of a key; nil if there is none. It reports nothing.
func (n *Node) Member(name string) *Node {
	if n == nil || n.kind != mapping {
		return nil
	}
	for _, child := range n.children {
		if child.name == name {
			return child
		}
	}
	return nil
}

// Sound reports whether nothing in the node, or below it, was reported so far. What is
// not in the document is sound.
func (n *Node) Sound() bool { return n == nil || !n.hasProblem }

// Fail reports a problem of the value, at its line.
func (n *Node) Fail(format string, args ...any) { n.fail(n.line, n.column, format, args) }

// FailKey reports a problem of the whole member, at the line of its key.
func (n *Node) FailKey(format string, args ...any) {
	if n.keyLine == 0 {
		n.Fail(format, args...)
		return
	}
	n.fail(n.keyLine, n.keyColumn, format, args)
}

func (n *Node) fail(line, column int, format string, args []any) {
	p := Problem{File: n.report.File, Line: line, Column: column, Path: n.shownPath(), Text: fmt.Sprintf(format, args...)}
	n.report.problems = append(n.report.problems, p)
	for at := n; at != nil; at = at.parent {
		at.hasProblem = true
	}
}

// shownPath is the path on one line: keys are whatever somebody wrote.
func (n *Node) shownPath() string {
	path := n.Path()
	if n.report.Redact != nil {
		path = n.report.Redact(path)
	}
	if len(path) > longestPath {
		path = path[:longestPath] + "..."
	}
	quoted := strconv.Quote(path)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

const longestPath = 300

// Below gives a node for a path below this one that the document does not have: what is
// said of it has the longer path, and the line of this node's key.
func (n *Node) Below(path string) *Node {
	if path == "" {
		return &Node{report: n.report, parent: n, line: n.at().line, column: n.at().column}
	}
	return &Node{report: n.report, parent: n, label: path, line: n.at().line, column: n.at().column}
}

type position struct{ line, column int }

// at is where the member begins, or the value if it is no member.
func (n *Node) at() position {
	if n.keyLine > 0 {
		return position{n.keyLine, n.keyColumn}
	}
	return position{n.line, n.column}
}

func (n *Node) refuse(text string) {
	n.Fail("%s", text)
	n.kind = unsupported
}

// Members gives the members of a mapping with free keys. Of a value that is none it
// reports it.
func (n *Node) Members() []*Node {
	if n == nil || n.kind == empty || n.kind == unsupported {
		return nil
	}
	if n.kind != mapping {
		n.Fail("must be a mapping (key: value), not %s", n.describe())
		return nil
	}
	return slices.Clone(n.children)
}

// Fields hands each member of a mapping with known keys to its reader. Any other key is
// a problem, unless a problem of it was reported before.
func (n *Node) Fields(known map[string]func(*Node)) {
	for _, member := range n.Members() {
		if read, ok := known[member.name]; ok {
			read(member)
			continue
		}
		if member.hasProblem {
			continue
		}
		names := make([]string, 0, len(known))
		for name := range known {
			names = append(names, name)
		}
		n.unknownKey(member, names)
	}
}

// unknownKey reports a member whose key is none of the names.
func (n *Node) unknownKey(member *Node, names []string) {
	slices.Sort(names)
	key := &Node{report: n.report, parent: n, line: member.keyLine, column: member.keyColumn}
	key.Fail("unknown key %s; %sknown are %s", n.report.Quote(member.name), DidYouMean(names, member.name), strings.Join(names, ", "))
	member.hasProblem = true
	n.suggested = append(n.suggested, Nearest(names, member.name)...)
}

// Lacks reports whether a mapping does not have a key, and no unknown key either by which it
// may have been meant.
func (n *Node) Lacks(key string) bool {
	return n.Member(key) == nil && !slices.Contains(n.suggested, key)
}

// Items gives the elements of a list. Anything else is the one element of a list; an empty
// value has none.
func (n *Node) Items() []*Node {
	switch {
	case n == nil || n.kind == empty || n.kind == unsupported:
		return nil
	case n.kind == list:
		return slices.Clone(n.children)
	}
	return []*Node{n}
}

// Text gives a single value as it is written. It reports a value that is none.
func (n *Node) Text() (string, bool) {
	switch n.kind {
	case scalar:
		return n.text, true
	case unsupported:
	case empty:
		n.Fail("is empty; write a value, or leave the key out")
	default:
		n.Fail("must be a single value, not %s", n.describe())
	}
	return "", false
}

func (n *Node) describe() string {
	switch n.kind {
	case mapping:
		return "a mapping"
	case list:
		return "a list"
	case empty, unsupported:
		return "nothing"
	case scalar:
	}
	return "a single value"
}
