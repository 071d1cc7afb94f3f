package providers

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"
)

// normalizer writes JSON values in their canonical form, the one of
// [Provider.Canonical], in one pass over the document and without building a tree.
//
// Most of a document stands there in its canonical form already, and is copied as it
// stands, in pieces that are as long as possible: a value that holds no white space, no
// escape that is written in another way, no volatile member and no object whose
// members are out of order. Only for the objects and arrays that are to be written
// anew are their parts kept, and what is written is written once.
type normalizer struct {
	walker
	out   []byte
	texts []byte // what stands in the document in another spelling
	open  []part // members and elements of the objects and arrays that are still open
	kept  []part // those of the closed ones that are to be written anew
}

// part is a member of an object or an element of an array. Consecutive elements that
// are copied are one part.
type part struct {
	prefix             uint64 // the first eight bytes of the name, for comparison
	nameStart, nameEnd int32  // of the decoded name; in texts if respelt
	extent
	respelt bool
}

// extent is a value: how it is written, and where it is found.
type extent struct {
	start, end int32 // in the document, in texts, or in kept
	kind       byte
}

// The kinds of pieces; others are the bracket of an object or array that is written anew.
const (
	asItStands = 0
	inTexts    = 't'
)

// maxNormal is the longest document, in bytes, that has a canonical form here. No
// provider takes one that long.
const maxNormal = 1 << 30

// normal appends the canonical form of a document without the fields at the
// volatile paths. ok is false if it is not JSON, or has a key twice and so no one
// meaning; nothing is appended then.
func (n *normalizer) normal(doc []byte, volatile [][]string) (ok bool) {
	if len(doc) > maxNormal || !utf8.Valid(doc) {
		return false
	}
	n.walker = walker{doc: doc}
	n.texts, n.open, n.kept = n.texts[:0], n.open[:0], n.kept[:0]
	root, err := n.value(0, volatile)
	if err != nil {
		return false
	}
	n.space()
	if n.pos != len(doc) {
		return false
	}
	n.write(root)
	return true
}

// room is how many bytes are held for the next document.
func (n *normalizer) room() int {
	const size = 40 // of a part
	return cap(n.out) + cap(n.texts) + size*(cap(n.open)+cap(n.kept))
}

func (n *normalizer) value(depth int, volatile [][]string) (extent, error) {
	n.space()
	start := n.pos
	if start >= len(n.doc) {
		return extent{}, errNotJSON
	}
	end, escaped := 0, false
	switch c := n.doc[start]; {
	case c == '{':
		return n.object(depth+1, volatile)
	case c == '[':
		return n.array(depth+1, volatile)
	case c == '"':
		end, escaped = textEnd(n.doc, start)
	default:
		end = scanScalar(n.doc, start)
	}
	if end < 0 {
		return extent{}, errNotJSON
	}
	n.pos = end
	if escaped {
		raw := n.doc[start:end]
		// A text with lone surrogates keeps its spelling: it has no other.
		if s, err := unquote(raw); err == nil {
			before := len(n.texts)
			if n.texts = appendText(n.texts, s); !bytes.Equal(n.texts[before:], raw) {
				return extent{int32(before), int32(len(n.texts)), inTexts}, nil
			}
			n.texts = n.texts[:before]
		}
	}
	return extent{int32(start), int32(end), asItStands}, nil
}

// textEnd passes over the text that begins at i; the end is -1 if it is none. escaped
// reports whether it holds an escape.
func textEnd(doc []byte, i int) (end int, escaped bool) {
	at := i + 1
	for at <= len(doc)-8 {
		if found := stops(binary.LittleEndian.Uint64(doc[at:])); found != 0 {
			at += first(found)
			if doc[at] == '"' {
				return at + 1, false
			}
			return scanText(doc, i), true
		}
		at += 8
	}
	end = scanText(doc, i)
	return end, end > 0 && bytes.IndexByte(doc[i:end], '\\') >= 0
}

func (n *normalizer) object(depth int, volatile [][]string) (extent, error) {
	if depth > maxDepth {
		return extent{}, errTooDeep
	}
	start := n.pos
	n.pos++
	n.space()
	base, length := len(n.open), 1
	clean, sorted := true, true // as it stands; in order
	if n.peek() == '}' {
		n.pos++
		return n.close('{', base, start, n.pos-start == 2), nil
	}
	for {
		m := part{}
		nameStart, err := n.name(&m)
		if err != nil {
			return extent{}, err
		}
		inner, drop := volatile, false
		if len(volatile) > 0 {
			inner, drop = below(volatile, n.text(&m))
		}
		if m.extent, err = n.value(depth, inner); err != nil {
			return extent{}, err
		}
		length += n.pos - nameStart + 1
		if drop {
			clean = false
		} else {
			clean = clean && !m.respelt && m.kind == asItStands && m.start == m.nameEnd+2
			if len(n.open) > base && n.compare(&n.open[len(n.open)-1], &m) >= 0 {
				sorted = false
			}
			n.open = append(n.open, m)
		}
		n.space()
		switch n.peek() {
		case ',':
			n.pos++
			continue
		case '}':
			n.pos++
		default:
			return extent{}, errNotJSON
		}
		if !sorted {
			if !n.sort(n.open[base:]) {
				return extent{}, errTwice
			}
		}
		return n.close('{', base, start, clean && sorted && n.pos-start == length), nil
	}
}

// close ends an object or array: it is a extent of the document if it stands there in
// its canonical form, or else its parts are kept.
func (n *normalizer) close(bracket byte, base, start int, clean bool) extent {
	parts := n.open[base:]
	n.open = n.open[:base]
	if clean {
		return extent{int32(start), int32(n.pos), asItStands}
	}
	from := len(n.kept)
	n.kept = append(n.kept, parts...)
	return extent{int32(from), int32(len(n.kept)), bracket}
}

// name reads a key and its colon. start is where the key begins.
func (n *normalizer) name(m *part) (start int, err error) {
	n.space()
	start = n.pos
	if start >= len(n.doc) || n.doc[start] != '"' {
		return 0, errNotJSON
	}
	end, escaped := textEnd(n.doc, start)
	if end < 0 {
		return 0, errNotJSON
	}
	n.pos = end
	n.space()
	if n.peek() != ':' {
		return 0, errNotJSON
	}
	n.pos++
	m.nameStart, m.nameEnd = int32(start+1), int32(end-1)
	if escaped {
		text, err := unquote(n.doc[start:end])
		if err != nil {
			return 0, err
		}
		m.nameStart, m.respelt = int32(len(n.texts)), true
		n.texts = append(n.texts, text...)
		m.nameEnd = int32(len(n.texts))
	}
	m.prefix = prefix(n.text(m))
	return start, nil
}

// text is the decoded name of a member.
func (n *normalizer) text(m *part) []byte {
	if m.respelt {
		return n.texts[m.nameStart:m.nameEnd]
	}
	return n.doc[m.nameStart:m.nameEnd]
}

// prefix is the first eight bytes of a name as a number that sorts as they do.
func prefix(name []byte) uint64 {
	if len(name) >= 8 {
		return binary.BigEndian.Uint64(name)
	}
	var out uint64
	for i, c := range name {
		out |= uint64(c) << (56 - 8*i)
	}
	return out
}

func (n *normalizer) compare(a, b *part) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	return bytes.Compare(n.text(a), n.text(b))
}

// fewMembers is up to how many an object is sorted by insertion.
const fewMembers = 12

// sort puts members into the order of their names. It reports whether all differ.
func (n *normalizer) sort(members []part) bool {
	if len(members) > fewMembers {
		slices.SortFunc(members, func(a, b part) int { return n.compare(&a, &b) })
		for i := 1; i < len(members); i++ {
			if n.compare(&members[i-1], &members[i]) == 0 {
				return false
			}
		}
		return true
	}
	for i := 1; i < len(members); i++ {
		m := members[i]
		at := i
		for ; at > 0; at-- {
			order := n.compare(&members[at-1], &m)
			if order == 0 {
				return false
			}
			if order < 0 {
				break
			}
			members[at] = members[at-1]
		}
		members[at] = m
	}
	return true
}

func (n *normalizer) array(depth int, volatile [][]string) (extent, error) {
	if depth > maxDepth {
		return extent{}, errTooDeep
	}
	start := n.pos
	n.pos++
	n.space()
	base, length, clean := len(n.open), 1, true
	if n.peek() == ']' {
		n.pos++
		return n.close('[', base, start, n.pos-start == 2), nil
	}
	for i := 0; ; i++ {
		inner, drop := volatile, false
		if len(volatile) > 0 {
			inner, drop = below(volatile, strconv.Itoa(i))
		}
		n.space()
		before := n.pos
		value, err := n.value(depth, inner)
		if err != nil {
			return extent{}, err
		}
		length += n.pos - before + 1
		clean = clean && !drop && value.kind == asItStands
		if !drop {
			n.element(base, value)
		}
		n.space()
		switch n.peek() {
		case ',':
			n.pos++
		case ']':
			n.pos++
			return n.close('[', base, start, clean && n.pos-start == length), nil
		default:
			return extent{}, errNotJSON
		}
	}
}

// element adds an element to the array that is open, or to the part before it where
// only a comma stands between the two.
func (n *normalizer) element(base int, value extent) {
	if last := len(n.open) - 1; last >= base && value.kind == asItStands && n.open[last].kind == asItStands && n.open[last].end+1 == value.start {
		n.open[last].end = value.end
		return
	}
	n.open = append(n.open, part{extent: value})
}

// write appends a value in its canonical form.
func (n *normalizer) write(p extent) {
	switch p.kind {
	case asItStands:
		n.out = append(n.out, n.doc[p.start:p.end]...)
	case inTexts:
		n.out = append(n.out, n.texts[p.start:p.end]...)
	case '[':
		n.out = append(n.out, '[')
		for i := p.start; i < p.end; i++ {
			if i > p.start {
				n.out = append(n.out, ',')
			}
			n.write(n.kept[i].extent)
		}
		n.out = append(n.out, ']')
	case '{':
		n.out = append(n.out, '{')
		for i := p.start; i < p.end; i++ {
			if i > p.start {
				n.out = append(n.out, ',')
			}
			n.member(&n.kept[i])
		}
		n.out = append(n.out, '}')
	}
}

// member writes a member of an object, in one piece where it stands so.
func (n *normalizer) member(m *part) {
	switch {
	case m.respelt:
		n.out = append(appendText(n.out, n.text(m)), ':')
	case m.kind == asItStands && m.start == m.nameEnd+2:
		n.out = append(n.out, n.doc[m.nameStart-1:m.end]...)
		return
	default:
		n.out = append(append(n.out, n.doc[m.nameStart-1:m.nameEnd+1]...), ':')
	}
	n.write(m.extent)
}
