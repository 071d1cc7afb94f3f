package jsonspan

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Tree is a JSON value for comparison. Numbers keep their spelling: 1.0 and 1 differ, and numbers
// beyond 2^53 lose no digits.
type Tree struct {
	kind     byte   // { [ or 0 for a scalar
	scalar   []byte // in its canonical form
	members  []member
	elements []*Tree
}

type member struct {
	name  string
	value *Tree
}

// Compare calls found for each path at which two values differ, with both values, nil for a missing
// one. It stops when found returns false.
func Compare(a, b *Tree, path string, found func(path string, a, b *Tree) bool) bool {
	if a == nil || b == nil || a.kind != b.kind || a.kind == 0 && !bytes.Equal(a.scalar, b.scalar) {
		return found(cmp.Or(path, "$"), a, b)
	}
	more := true
	switch a.kind {
	case '{':
		i, j := 0, 0
		for more && (i < len(a.members) || j < len(b.members)) {
			switch {
			case j == len(b.members) || i < len(a.members) && a.members[i].name < b.members[j].name:
				more = Compare(a.members[i].value, nil, JoinPath(path, quoteName(a.members[i].name)), found)
				i++
			case i == len(a.members) || a.members[i].name > b.members[j].name:
				more = Compare(nil, b.members[j].value, JoinPath(path, quoteName(b.members[j].name)), found)
				j++
			default:
				more = Compare(a.members[i].value, b.members[j].value, JoinPath(path, quoteName(a.members[i].name)), found)
				i++
				j++
			}
		}
	case '[':
		for i := 0; more && i < max(len(a.elements), len(b.elements)); i++ {
			var x, y *Tree
			if i < len(a.elements) {
				x = a.elements[i]
			}
			if i < len(b.elements) {
				y = b.elements[i]
			}
			more = Compare(x, y, JoinPath(path, strconv.Itoa(i)), found)
		}
	}
	return more
}

// quoteName shortens a long key and quotes one with control characters or dots, for use in a path.
func quoteName(name string) string {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "..."
	}
	for i := range len(name) {
		if name[i] < 0x20 || name[i] == 0x7f || name[i] == '.' {
			return strconv.Quote(name)
		}
	}
	return name
}

// Append appends the canonical form of the value.
func (t *Tree) Append(out []byte) []byte {
	switch t.kind {
	case '{':
		out = append(out, '{')
		for i, m := range t.members {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendText(out, m.name)
			out = append(out, ':')
			out = m.value.Append(out)
		}
		return append(out, '}')
	case '[':
		out = append(out, '[')
		for i, e := range t.elements {
			if i > 0 {
				out = append(out, ',')
			}
			out = e.Append(out)
		}
		return append(out, ']')
	}
	return append(out, t.scalar...)
}

// ParseTree parses a document without the fields at the volatile paths. The second result is false
// if the document is not JSON, or if an object repeats a key, because the document is then
// ambiguous.
func ParseTree(doc []byte, volatile [][]string) (*Tree, bool) {
	if !utf8.Valid(doc) {
		return nil, false
	}
	w := walker{doc: doc}
	t, err := w.tree(0, volatile)
	if err != nil {
		return nil, false
	}
	w.space()
	return t, w.pos == len(doc)
}

func (w *walker) tree(depth int, volatile [][]string) (*Tree, error) {
	w.space()
	switch w.peek() {
	case '{':
		return w.treeObject(depth+1, volatile)
	case '[':
		return w.treeArray(depth+1, volatile)
	}
	start := w.pos
	if err := w.skip(depth); err != nil {
		return nil, err
	}
	raw := w.doc[start:w.pos]
	if raw[0] == '"' {
		// A string with lone surrogates keeps its spelling because it cannot be decoded.
		if s, err := Unquote(raw); err == nil {
			raw = appendText(nil, s)
		}
	}
	return &Tree{scalar: raw}, nil
}

func (w *walker) treeObject(depth int, volatile [][]string) (*Tree, error) {
	if depth > MaxDepth {
		return nil, ErrTooDeep
	}
	t := &Tree{kind: '{'}
	w.pos++
	w.space()
	if w.peek() == '}' {
		w.pos++
		return t, nil
	}
	for {
		w.space()
		start := w.pos
		if w.pos = scanKey(w.doc, start); w.pos < 0 {
			return nil, ErrNotJSON
		}
		name, err := Unquote(w.doc[start:scanText(w.doc, start)])
		if err != nil {
			return nil, err
		}
		inner, drop := below(volatile, name)
		value, err := w.tree(depth, inner)
		if err != nil {
			return nil, err
		}
		if !drop {
			t.members = append(t.members, member{name, value})
		}
		w.space()
		switch w.peek() {
		case ',':
			w.pos++
		case '}':
			w.pos++
			slices.SortFunc(t.members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
			for i := 1; i < len(t.members); i++ {
				if t.members[i].name == t.members[i-1].name {
					return nil, ErrTwice
				}
			}
			return t, nil
		default:
			return nil, ErrNotJSON
		}
	}
}

func (w *walker) treeArray(depth int, volatile [][]string) (*Tree, error) {
	if depth > MaxDepth {
		return nil, ErrTooDeep
	}
	t := &Tree{kind: '['}
	w.pos++
	w.space()
	if w.peek() == ']' {
		w.pos++
		return t, nil
	}
	for i := 0; ; i++ {
		inner, drop := below(volatile, strconv.Itoa(i))
		value, err := w.tree(depth, inner)
		if err != nil {
			return nil, err
		}
		if !drop {
			t.elements = append(t.elements, value)
		}
		w.space()
		switch w.peek() {
		case ',':
			w.pos++
		case ']':
			w.pos++
			return t, nil
		default:
			return nil, ErrNotJSON
		}
	}
}

// below returns the paths that continue inside the member called name, and whether one of the paths
// is the member itself. A * matches every member and element.
func below[T string | []byte](paths [][]string, name T) (inner [][]string, whole bool) {
	for _, p := range paths {
		if p[0] != "*" && p[0] != string(name) {
			continue
		}
		if len(p) == 1 {
			return nil, true
		}
		inner = append(inner, p[1:])
	}
	return inner, false
}
