package jsonspan

import "strings"

// ParseMeaning reads a document as [ParseTree] does, and normalizes its values: numbers with the
// same value become equal ([Decimal]), and white space around a string is removed. The names of
// members are unchanged.
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
		// A string with lone surrogates keeps its spelling because it cannot be decoded.
		if s, err := Unquote(t.scalar); err == nil {
			t.scalar = appendText(nil, strings.TrimSpace(s))
		}
	case c == '-' || c-'0' <= 9:
		t.scalar = Decimal(t.scalar)
	}
}
