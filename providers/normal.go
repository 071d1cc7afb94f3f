package providers

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// normalizer writes JSON values in their canonical form, the one of
// [Provider.Canonical], in a single pass and without building a tree. What it has
// written stays in out; the members of the objects that are still open are a
// stack, so that their order can be mended when the object closes.
type normalizer struct {
	walker
	out     []byte
	scratch []byte
	open    []placed
}

// placed is a member of an object as it stands in the output.
type placed struct {
	name       []byte // decoded
	start, end int
}

// normal appends the canonical form of a document without the fields at the
// volatile paths. ok is false if it is not JSON, or has a key twice and so no one
// meaning; out then holds what was written so far.
func (n *normalizer) normal(doc []byte, volatile [][]string) (ok bool) {
	if !utf8.Valid(doc) {
		return false
	}
	n.walker = walker{doc: doc}
	n.open = n.open[:0]
	if err := n.value(0, volatile); err != nil {
		return false
	}
	n.space()
	return n.pos == len(doc)
}

func (n *normalizer) value(depth int, volatile [][]string) error {
	n.space()
	switch n.peek() {
	case '{':
		return n.object(depth+1, volatile)
	case '[':
		return n.array(depth+1, volatile)
	}
	start := n.pos
	if start >= len(n.doc) {
		return errNotJSON
	}
	end := scanScalar(n.doc, start)
	if end < 0 {
		return errNotJSON
	}
	n.pos = end
	raw := n.doc[start:end]
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') >= 0 {
		// A text with lone surrogates keeps its spelling: it has no other.
		if s, err := unquote(raw); err == nil {
			n.out = appendText(n.out, s)
			return nil
		}
	}
	n.out = append(n.out, raw...)
	return nil
}

func (n *normalizer) object(depth int, volatile [][]string) error {
	if depth > maxDepth {
		return errTooDeep
	}
	n.out = append(n.out, '{')
	n.pos++
	n.space()
	if n.peek() == '}' {
		n.pos++
		n.out = append(n.out, '}')
		return nil
	}
	base, first := len(n.open), len(n.out)
	sorted := true
	for {
		name, raw, err := n.name()
		if err != nil {
			return err
		}
		inner, drop := volatile, false
		if len(volatile) > 0 {
			inner, drop = below(volatile, string(name))
		}
		before := len(n.out)
		if len(n.open) > base {
			n.out = append(n.out, ',')
		}
		start := len(n.out)
		if raw != nil {
			n.out = append(n.out, raw...)
		} else {
			n.out = appendText(n.out, name)
		}
		n.out = append(n.out, ':')
		if err := n.value(depth, inner); err != nil {
			return err
		}
		if drop {
			n.out = n.out[:before]
		} else {
			if len(n.open) > base && bytes.Compare(n.open[len(n.open)-1].name, name) >= 0 {
				sorted = false
			}
			n.open = append(n.open, placed{name, start, len(n.out)})
		}
		n.space()
		switch n.peek() {
		case ',':
			n.pos++
			continue
		case '}':
			n.pos++
		default:
			return errNotJSON
		}
		if !sorted {
			if err := n.sort(base, first); err != nil {
				return err
			}
		}
		n.open = n.open[:base]
		n.out = append(n.out, '}')
		return nil
	}
}

// name reads a key and its colon. raw is the key as it is written, where it is
// written as the canonical form does.
func (n *normalizer) name() (name, raw []byte, err error) {
	n.space()
	start := n.pos
	end := scanKey(n.doc, start)
	if end < 0 {
		return nil, nil, errNotJSON
	}
	n.pos = end
	raw = n.doc[start:scanText(n.doc, start)]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], raw, nil
	}
	text, err := unquote(raw)
	return []byte(text), nil, err
}

// sort puts the members of the object that closes into the order of their names.
func (n *normalizer) sort(base, first int) error {
	members := n.open[base:]
	slices.SortStableFunc(members, func(a, b placed) int { return bytes.Compare(a.name, b.name) })
	n.scratch = n.scratch[:0]
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(members[i-1].name, m.name) {
				return errTwice
			}
			n.scratch = append(n.scratch, ',')
		}
		n.scratch = append(n.scratch, n.out[m.start:m.end]...)
	}
	n.out = append(n.out[:first], n.scratch...)
	return nil
}

func (n *normalizer) array(depth int, volatile [][]string) error {
	if depth > maxDepth {
		return errTooDeep
	}
	n.out = append(n.out, '[')
	n.pos++
	n.space()
	if n.peek() == ']' {
		n.pos++
		n.out = append(n.out, ']')
		return nil
	}
	first := len(n.out)
	for i := 0; ; i++ {
		inner, drop := volatile, false
		if len(volatile) > 0 {
			inner, drop = below(volatile, strconv.Itoa(i))
		}
		before := len(n.out)
		if before > first {
			n.out = append(n.out, ',')
		}
		if err := n.value(depth, inner); err != nil {
			return err
		}
		if drop {
			n.out = n.out[:before]
		}
		n.space()
		switch n.peek() {
		case ',':
			n.pos++
		case ']':
			n.pos++
			n.out = append(n.out, ']')
			return nil
		default:
			return errNotJSON
		}
	}
}
