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
	unsupported // already reported
)

// Node is a value in a document: empty, a single value, a list or a mapping.
type Node struct {
	report   *Report
	parent   *Node
	name     string // the key, if the node is a member of a mapping
	label    string // the node's part of the path
	kind     kind
	text     string
	children []*Node
	// hasProblem is true if a problem was reported for the node or one below it. suggested contains
	// the known keys that the author may have meant by the mapping's unknown keys.
	hasProblem bool
	suggested  []string

	line, column       int
	keyLine, keyColumn int
}

// Name returns the key of a member of a mapping, or the name set by [Node.Rename].
func (n *Node) Name() string { return n.name }

// Line returns the line of the value, or 0 if it is not known.
func (n *Node) Line() int { return n.line }

// KeyLine returns the line of the key, or 0 if the node has no key.
func (n *Node) KeyLine() int { return n.keyLine }

// Path returns the path from the document to the node: keys joined by dots, and [i] for the
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

// Place makes the root of a document a member of another one: it gets a name, and paths below it begin with path.
func (n *Node) Place(path, name string) { n.name, n.label = name, path }

// Rename names an element of a list. Paths show the name instead of the index from then on.
func (n *Node) Rename(name string) { n.name, n.label = name, name }

func itemLabel(i int) string { return "[" + strconv.Itoa(i) + "]" }

// IsEmpty reports whether the value is missing or null.
func (n *Node) IsEmpty() bool { return n == nil || n.kind == empty }

// IsScalar reports whether the node is a single value.
func (n *Node) IsScalar() bool { return n != nil && n.kind == scalar }

// IsList reports whether the node is a list.
func (n *Node) IsList() bool { return n != nil && n.kind == list }

// IsMapping reports whether the node is a mapping.
func (n *Node) IsMapping() bool { return n != nil && n.kind == mapping }

// Value returns a single value's text, or "" for any other node. It reports no problem.
func (n *Node) Value() string {
	if n == nil {
		return ""
	}
	return n.text
}

// Member returns the value of a key, or nil if the mapping does not have the key. It reports no
// problem.
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

// Sound reports whether no problem has been reported for the node or for any node below it. A nil
// node, which stands for a value that the document does not have, is sound.
func (n *Node) Sound() bool { return n == nil || !n.hasProblem }

// Fail reports a problem with the value, at the value's line.
func (n *Node) Fail(format string, args ...any) { n.fail(n.line, n.column, format, args) }

// FailKey reports a problem with the whole member, at the line of its key.
func (n *Node) FailKey(format string, args ...any) {
	if n.keyLine == 0 {
		n.Fail(format, args...)
		return
	}
	n.fail(n.keyLine, n.keyColumn, format, args)
}

func (n *Node) fail(line, column int, format string, args []any) {
	if n.report.Unplaced {
		line, column = 0, 0
	}
	p := Problem{File: n.report.File, Line: line, Column: column, Path: n.shownPath(), Text: fmt.Sprintf(format, args...)}
	n.report.problems = append(n.report.problems, p)
	for at := n; at != nil; at = at.parent {
		at.hasProblem = true
	}
}

// shownPath returns the path as one line. It redacts, shortens and quotes the path because keys can
// be arbitrary text.
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

// Below returns a node for a path below n that the document does not contain. Problems reported for
// it show the longer path and the line of n's key.
func (n *Node) Below(path string) *Node {
	if path == "" {
		return &Node{report: n.report, parent: n, line: n.at().line, column: n.at().column}
	}
	return &Node{report: n.report, parent: n, label: path, line: n.at().line, column: n.at().column}
}

type position struct{ line, column int }

// at returns the position of the member's key, or of the value if the node is not a member.
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

// Members returns the members of a mapping with free keys. It reports a problem if the value is not
// a mapping.
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

// Fields calls known[key] for each member of a mapping with known keys. Any other key is a problem,
// unless a problem with that member was reported before.
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

// unknownKey reports that a member's key is not in names.
func (n *Node) unknownKey(member *Node, names []string) {
	slices.Sort(names)
	key := &Node{report: n.report, parent: n, line: member.keyLine, column: member.keyColumn}
	key.Fail("unknown key %s; %sknown are %s", n.report.Quote(member.name), DidYouMean(names, member.name), strings.Join(names, ", "))
	member.hasProblem = true
	n.suggested = append(n.suggested, Nearest(names, member.name)...)
}

// Lacks reports whether the mapping does not have the key, and has no unknown key that may be a
// misspelling of it.
func (n *Node) Lacks(key string) bool {
	return n.Member(key) == nil && !slices.Contains(n.suggested, key)
}

// Items returns the elements of a list. A mapping or a single value counts as a list with one
// element; an empty value has no elements.
func (n *Node) Items() []*Node {
	switch {
	case n == nil || n.kind == empty || n.kind == unsupported:
		return nil
	case n.kind == list:
		return slices.Clone(n.children)
	}
	return []*Node{n}
}

// Text returns a single value's text. It reports a problem if the node is not a single value.
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
