package jsonspan

import "strconv"

// Change is one JSON path at which two documents differ. A side is nil if its document has no value
// at the path.
type Change struct {
	Path          string
	Before, After []byte
}

// masked replaces a hidden value.
const masked = `"<redacted>"`

// Changes returns the JSON paths at which two documents differ, with both values in canonical form.
// The result is sorted by path and has at most limit entries. Changes masks the values at paths for
// which hidden returns true. ok is false unless both documents are JSON without repeated keys.
func Changes(before, after []byte, limit int, hidden func(path string) bool) (changes []Change, ok bool) {
	return ChangesWithout(nil, before, after, limit, hidden)
}

// ChangesWithout is like [Changes] but ignores the fields at the volatile paths.
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

// Mask returns the canonical form of a document in which every value at a path for which hidden
// returns true is masked. ok is false if the document is not JSON or an object repeats a key.
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

// mask returns the value with its hidden parts replaced. Unchanged parts are shared with t.
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
