package providers

import (
	"strconv"
)

// Change is one JSON path in which two documents differ. A side that has nothing
// there is nil.
type Change struct {
	Path          string
	Before, After []byte
}

// masked stands for a value that is not shown.
const masked = `"<redacted>"`

// Changes gives the JSON paths in which two documents differ with what stands
// there, in canonical form, at most limit and sorted by path. What is at a path
// for which hidden is true is masked. ok is false unless both are JSON without a
// key twice.
func Changes(before, after []byte, limit int, hidden func(path string) bool) (changes []Change, ok bool) {
	b, okB := parseTree(before, nil)
	a, okA := parseTree(after, nil)
	if !okA || !okB {
		return nil, false
	}
	compare(b, a, "", func(path string, x, y *tree) bool {
		changes = append(changes, Change{Path: path, Before: x.show(path, hidden), After: y.show(path, hidden)})
		return len(changes) < limit
	})
	return changes, true
}

// Mask gives the canonical form of a document in which every value at a path for
// which hidden is true is masked. ok is false if it is not JSON.
func Mask(document []byte, hidden func(path string) bool) (shown []byte, ok bool) {
	t, ok := parseTree(document, nil)
	if !ok {
		return nil, false
	}
	return t.show("$", hidden), true
}

func (t *tree) show(path string, hidden func(string) bool) []byte {
	if t == nil {
		return nil
	}
	if path == "$" {
		path = ""
	}
	return t.mask(path, hidden).append(nil)
}

// mask is the value with what is hidden replaced; the rest is shared with it.
func (t *tree) mask(path string, hidden func(string) bool) *tree {
	if path != "" && hidden(path) {
		return &tree{scalar: []byte(masked)}
	}
	switch t.kind {
	case '{':
		out := &tree{kind: '{', members: make([]member, len(t.members))}
		for i, m := range t.members {
			out.members[i] = member{m.name, m.value.mask(join(path, pathName(m.name)), hidden)}
		}
		return out
	case '[':
		out := &tree{kind: '[', elements: make([]*tree, len(t.elements))}
		for i, e := range t.elements {
			out.elements[i] = e.mask(join(path, strconv.Itoa(i)), hidden)
		}
		return out
	}
	return t
}
