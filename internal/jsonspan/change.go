package jsonspan

import "strconv"

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
	return ChangesWithout(nil, before, after, limit, hidden)
}

// ChangesWithout is [Changes] of two documents without what is at the volatile paths.
func ChangesWithout(volatile [][]string, before, after []byte, limit int, hidden func(path string) bool) (changes []Change, ok bool) {
	b, okB := ParseTree(before, volatile)
	a, okA := ParseTree(after, volatile)
	if !okA || !okB {
		return nil, false
	}
	Compare(b, a, "", func(path string, x, y *Tree) bool {
		changes = append(changes, Change{Path: path, Before: x.show(path, hidden), After: y.show(path, hidden)})
		return len(changes) < limit
	})
	return changes, true
}

// Mask gives the canonical form of a document in which every value at a path for
// which hidden is true is masked. ok is false if it is not JSON.
func Mask(document []byte, hidden func(path string) bool) (shown []byte, ok bool) {
	t, ok := ParseTree(document, nil)
	if !ok {
		return nil, false
	}
	return t.show("$", hidden), true
}

func (t *Tree) show(path string, hidden func(string) bool) []byte {
	if t == nil {
		return nil
	}
	if path == "$" {
		path = ""
	}
	return t.mask(path, hidden).Append(nil)
}

// mask is the value with what is hidden replaced; the rest is shared with it.
func (t *Tree) mask(path string, hidden func(string) bool) *Tree {
	if path != "" && hidden(path) {
		return &Tree{scalar: []byte(masked)}
	}
	switch t.kind {
	case '{':
		out := &Tree{kind: '{', members: make([]member, len(t.members))}
		for i, m := range t.members {
			out.members[i] = member{m.name, m.value.mask(JoinPath(path, quoteName(m.name)), hidden)}
		}
		return out
	case '[':
		out := &Tree{kind: '[', elements: make([]*Tree, len(t.elements))}
		for i, e := range t.elements {
			out.elements[i] = e.mask(JoinPath(path, strconv.Itoa(i)), hidden)
		}
		return out
	}
	return t
}
