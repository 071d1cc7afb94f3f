package jsonspan

import "strings"

// ParseMeaning reads a document as [ParseTree] does, and then by what its values mean: numbers of
// one value are one ([Decimal]), and white space around a text does not count. The names of members
// stay as they are.
func ParseMeaning(doc []byte, volatile [][]string) (*Tree, bool) {
	t, ok := ParseTree(doc, volatile)
	if ok {
		t.reduce()
	}
	return t, ok
}

func (t *Tree) reduce() {
	for _, m := range t.members {
		m.value.reduce()
	}
	for _, e := range t.elements {
		e.reduce()
	}
	if t.kind != 0 {
		return
	}
	switch c := t.scalar[0]; {
	case c == '"':
		// A text with lone surrogates keeps its spelling: it has no other.
		if s, err := Unquote(t.scalar); err == nil {
			t.scalar = appendText(nil, strings.TrimSpace(s))
		}
	case c == '-' || c-'0' <= 9:
		t.scalar = Decimal(t.scalar)
	}
}
