package providers

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDifferences is how many paths Differences names.
const maxDifferences = 20

// tree is a JSON value for comparison. Numbers stay as they are written: 1.0 and
// 1 are told apart, and nothing is lost beyond 2^53.
type tree struct {
	kind     byte // { [ or 0 for a scalar
	scalar   []byte
	members  []member
	elements []*tree
}

type member struct {
	name  string
	value *tree
}

// Canonical gives the one form of a JSON payload in which order of keys, white
// space and spelling of texts do not matter, after RFC 8785 but with numbers as
// written, and without the fields that the provider changes between deliveries.
// ok is false if the body is not JSON, or has a key twice and so no one meaning.
func (p *Provider) Canonical(body []byte) (canonical []byte, ok bool) {
	n := normalizer{out: make([]byte, 0, len(body))}
	if !n.normal(body, p.volatile) {
		return nil, false
	}
	return n.out, true
}

// Differences names the JSON paths in which two payloads differ, sorted, at most
// 20; never their values. "$" is the whole, where one of them is not JSON.
func (p *Provider) Differences(a, b []byte) []string {
	ta, okA := parseTree(a, p.volatile)
	tb, okB := parseTree(b, p.volatile)
	if !okA || !okB {
		if bytes.Equal(a, b) {
			return nil
		}
		return []string{"$"}
	}
	var out []string
	compare(ta, tb, "", func(path string, _, _ *tree) bool {
		out = append(out, path)
		return len(out) < maxDifferences
	})
	return out
}

// compare calls found for each path in which two values differ, with what stands
// there, nil for nothing, until it gives false.
func compare(a, b *tree, path string, found func(path string, a, b *tree) bool) bool {
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
				more = compare(a.members[i].value, nil, join(path, pathName(a.members[i].name)), found)
				i++
			case i == len(a.members) || a.members[i].name > b.members[j].name:
				more = compare(nil, b.members[j].value, join(path, pathName(b.members[j].name)), found)
				j++
			default:
				more = compare(a.members[i].value, b.members[j].value, join(path, pathName(a.members[i].name)), found)
				i++
				j++
			}
		}
	case '[':
		for i := 0; more && i < max(len(a.elements), len(b.elements)); i++ {
			var x, y *tree
			if i < len(a.elements) {
				x = a.elements[i]
			}
			if i < len(b.elements) {
				y = b.elements[i]
			}
			more = compare(x, y, join(path, strconv.Itoa(i)), found)
		}
	}
	return more
}

// pathName makes a key fit for a line of text.
func pathName(name string) string {
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

func (t *tree) append(out []byte) []byte {
	switch t.kind {
	case '{':
		out = append(out, '{')
		for i, m := range t.members {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendText(out, m.name)
			out = append(out, ':')
			out = m.value.append(out)
		}
		return append(out, '}')
	case '[':
		out = append(out, '[')
		for i, e := range t.elements {
			if i > 0 {
				out = append(out, ',')
			}
			out = e.append(out)
		}
		return append(out, ']')
	}
	return append(out, t.scalar...)
}

// appendText writes a text as RFC 8785 does: only what must be escaped is.
func appendText[T string | []byte](out []byte, s T) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\b':
			out = append(out, '\\', 'b')
		case c == '\f':
			out = append(out, '\\', 'f')
		case c == '\n':
			out = append(out, '\\', 'n')
		case c == '\r':
			out = append(out, '\\', 'r')
		case c == '\t':
			out = append(out, '\\', 't')
		case c < 0x20:
			out = append(out, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

func splitPath(path string) []string { return strings.Split(path, ".") }

// parseTree reads a document without the fields at the volatile paths.
func parseTree(doc []byte, volatile [][]string) (*tree, bool) {
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

func (w *walker) tree(depth int, volatile [][]string) (*tree, error) {
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
		// A text with lone surrogates keeps its spelling: it has no other.
		if s, err := unquote(raw); err == nil {
			raw = appendText(nil, s)
		}
	}
	return &tree{scalar: raw}, nil
}

func (w *walker) treeObject(depth int, volatile [][]string) (*tree, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	t := &tree{kind: '{'}
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
			return nil, errNotJSON
		}
		name, err := unquote(w.doc[start:scanText(w.doc, start)])
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
					return nil, errTwice
				}
			}
			return t, nil
		default:
			return nil, errNotJSON
		}
	}
}

func (w *walker) treeArray(depth int, volatile [][]string) (*tree, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	t := &tree{kind: '['}
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
			return nil, errNotJSON
		}
	}
}

// below gives the paths inside a member, and whether the member itself is one.
// A * stands for every member and element.
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
