package jsonspan

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Canonical gives the one form of a JSON document in which order of keys, white
// space and spelling of texts do not matter, after RFC 8785 but with numbers as
// written, and without the fields at the volatile paths. ok is false if the document is
// not JSON, or has a key twice and so no one meaning.
func Canonical(doc []byte, volatile [][]string) (canonical []byte, ok bool) {
	var n Canonicalizer
	root, err := n.Read(doc, volatile, nil, nil)
	if err != nil || n.none {
		return nil, false
	}
	return n.Append(make([]byte, 0, len(doc)), root), true
}

// Canonicalizer writes JSON values in the form of [Canonical], in one pass over the
// document and without building a tree. It can be used again, and keeps its room.
//
// Most of a document stands there in its canonical form already, and is copied as it
// stands, in pieces that are as long as possible: a value that holds no white space, no
// escape that is written in another way, no volatile member and no object whose
// members are out of order. Only for the objects and arrays that are to be written
// anew are their parts kept, and what is written is written once.
type Canonicalizer struct {
	walker
	texts []byte // what stands in the document in another spelling
	open  []part // members and elements of the objects and arrays that are still open
	kept  []part // those of the closed ones that are to be written anew
	none  bool   // the document has no canonical form
}

// part is a member of an object or an element of an array. Consecutive elements that
// are copied are one part.
type part struct {
	prefix             uint64 // the first eight bytes of the name, for comparison
	nameStart, nameEnd int32  // of the decoded name; in texts if respelt
	Value
	respelt bool
}

// Value is a value that was read: how it is written, and where it is found.
type Value struct {
	start, end int32 // in the document, in texts, or in kept
	kind       byte
}

// The kinds of pieces; others are the bracket of an object or array that is written anew.
const (
	asItStands = 0
	inTexts    = 't'
)

// MaxCanonical is the longest document, in bytes, that has a canonical form here. No
// provider takes one that long.
const MaxCanonical = 1 << 30

// Read passes over a document and gives what is to be written of it. It also finds the
// spans of a set of paths, as [PathSet.WalkInto] does and with its errors, so that a document
// that is read for its fields and for its digest is passed over once.
func (n *Canonicalizer) Read(doc []byte, volatile [][]string, set *PathSet, spans []Span) (root Value, err error) {
	n.walker = walker{doc: doc, set: set, spans: spans}
	n.texts, n.open, n.kept = n.texts[:0], n.open[:0], n.kept[:0]
	n.none = len(doc) > MaxCanonical || !utf8.Valid(doc)
	node := nowhere
	if set != nil {
		node = 0
	}
	if root, err = n.at(node, 0, volatile); err != nil {
		return root, err
	}
	n.space()
	if n.pos != len(doc) {
		return root, ErrNotJSON
	}
	return root, nil
}

// HasForm reports whether the document that was read has a canonical form: it has none with
// a key twice, or with texts that are not UTF-8.
func (n *Canonicalizer) HasForm() bool { return !n.none }

// Release lets go of the document.
func (n *Canonicalizer) Release() { n.walker = walker{} }

// nowhere is the node of a value that no path goes through.
const nowhere = -1

// at reads the value of a node.
func (n *Canonicalizer) at(node, depth int, volatile [][]string) (Value, error) {
	if node == nowhere {
		return n.value(node, depth, volatile)
	}
	n.space()
	start := n.pos
	value, err := n.value(node, depth, volatile)
	if err != nil {
		return value, err
	}
	n.spans[node] = Span{start, n.pos}
	return value, nil
}

// Room is how many bytes are held for the next document.
func (n *Canonicalizer) Room() int {
	const size = 40 // of a part
	return cap(n.texts) + size*(cap(n.open)+cap(n.kept))
}

func (n *Canonicalizer) value(node, depth int, volatile [][]string) (Value, error) {
	n.space()
	start := n.pos
	if start >= len(n.doc) {
		return Value{}, ErrNotJSON
	}
	var end int
	var escaped bool
	switch c := n.doc[start]; {
	case c == '{':
		return n.object(node, depth+1, volatile)
	case c == '[':
		return n.array(node, depth+1, volatile)
	case c == '"':
		end, escaped = textEnd(n.doc, start)
	default:
		end = scanScalar(n.doc, start)
	}
	if end < 0 {
		return Value{}, ErrNotJSON
	}
	n.pos = end
	if escaped {
		raw := n.doc[start:end]
		// A text with lone surrogates keeps its spelling: it has no other.
		if s, err := Unquote(raw); err == nil {
			before := len(n.texts)
			if n.texts = appendText(n.texts, s); !bytes.Equal(n.texts[before:], raw) {
				return Value{int32(before), int32(len(n.texts)), inTexts}, nil
			}
			n.texts = n.texts[:before]
		}
	}
	return Value{int32(start), int32(end), asItStands}, nil
}

// scalar reads the value that begins here, if it is a scalar that is written as in the
// canonical form, as most values are.
func (n *Canonicalizer) scalar(out *Value) bool {
	start := n.pos
	if start >= len(n.doc) {
		return false
	}
	end, escaped := 0, false
	switch c := n.doc[start]; {
	case c == '"':
		end, escaped = textEnd(n.doc, start)
	case c-'0' <= 9 || c == 't' || c == 'f' || c == 'n':
		end = scanScalar(n.doc, start)
	}
	if end <= 0 || escaped {
		return false
	}
	n.pos = end
	*out = Value{int32(start), int32(end), asItStands}
	return true
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

func (n *Canonicalizer) object(node, depth int, volatile [][]string) (Value, error) {
	if depth > MaxDepth {
		return Value{}, ErrTooDeep
	}
	doc, start := n.doc, n.pos
	i := SkipBlank(doc, start+1)
	base, length := len(n.open), 1
	clean, sorted := true, true // as it stands; in order
	if i < len(doc) && doc[i] == '}' {
		n.pos = i + 1
		return n.close('{', base, start, n.pos-start == 2), nil
	}
	for {
		m := part{}
		i = SkipBlank(doc, i)
		nameStart := i
		if i >= len(doc) || doc[i] != '"' {
			return Value{}, ErrNotJSON
		}
		end, escaped := textEnd(doc, i)
		if i = end; i < 0 {
			return Value{}, ErrNotJSON
		}
		m.nameStart, m.nameEnd = int32(nameStart+1), int32(i-1)
		if escaped {
			n.respell(&m)
		}
		name := n.text(&m)
		m.prefix = prefix(name)
		if i = SkipBlank(doc, i); i >= len(doc) || doc[i] != ':' {
			return Value{}, ErrNotJSON
		}
		n.pos = i + 1
		inner, drop := volatile, false
		if len(volatile) > 0 {
			inner, drop = below(volatile, name)
		}
		child := nowhere
		if node != nowhere {
			if child = n.set.nodes[node].child(name); child != nowhere && n.spans[child].Present() {
				return Value{}, ErrTwice
			}
		}
		if child != nowhere || !n.scalar(&m.Value) {
			var err error
			if m.Value, err = n.at(child, depth, inner); err != nil {
				return Value{}, err
			}
		}
		i = n.pos
		length += i - nameStart + 1
		if drop {
			clean = false
		} else {
			clean = clean && m.stands()
			if last := len(n.open) - 1; last >= base && n.open[last].prefix >= m.prefix && n.compare(&n.open[last], &m) >= 0 {
				sorted = false
			}
			n.open = append(n.open, m)
		}
		if i = SkipBlank(doc, i); i >= len(doc) {
			return Value{}, ErrNotJSON
		}
		c := doc[i]
		i++
		if c == ',' {
			continue
		}
		if n.pos = i; c != '}' {
			return Value{}, ErrNotJSON
		}
		if !sorted && !n.sort(n.open[base:]) {
			n.none = true // a key is there twice
		}
		return n.close('{', base, start, clean && sorted && n.pos-start == length), nil
	}
}

// stands reports whether a member stands in the document as the canonical form writes it.
func (m *part) stands() bool {
	return m.kind == asItStands && m.start == m.nameEnd+2 && !m.respelt
}

// close ends an object or array: it is a Value of the document if it stands there in
// its canonical form, or else its parts are kept.
func (n *Canonicalizer) close(bracket byte, base, start int, clean bool) Value {
	parts := n.open[base:]
	n.open = n.open[:base]
	if clean {
		return Value{int32(start), int32(n.pos), asItStands}
	}
	from := len(n.kept)
	n.kept = append(n.kept, parts...)
	return Value{int32(from), int32(len(n.kept)), bracket}
}

// respell decodes a name that holds escapes.
func (n *Canonicalizer) respell(m *part) {
	text, err := Unquote(n.doc[m.nameStart-1 : m.nameEnd+1])
	if err != nil {
		n.none, m.nameEnd = true, m.nameStart // what is no text is no name that is looked for
		return
	}
	m.nameStart, m.respelt = int32(len(n.texts)), true
	n.texts = append(n.texts, text...)
	m.nameEnd = int32(len(n.texts))
}

// text is the decoded name of a member.
func (n *Canonicalizer) text(m *part) []byte {
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

func (n *Canonicalizer) compare(a, b *part) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	return bytes.Compare(n.text(a), n.text(b))
}

// fewMembers is up to how many an object is sorted by insertion.
const fewMembers = 12

// sort puts members into the order of their names. It reports whether all differ.
func (n *Canonicalizer) sort(members []part) bool {
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

func (n *Canonicalizer) array(node, depth int, volatile [][]string) (Value, error) {
	if depth > MaxDepth {
		return Value{}, ErrTooDeep
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
		child := nowhere
		if node != nowhere {
			child = n.set.nodes[node].element(i)
		}
		n.space()
		before := n.pos
		value, err := n.at(child, depth, inner)
		if err != nil {
			return Value{}, err
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
			return Value{}, ErrNotJSON
		}
	}
}

// element adds an element to the array that is open, or to the part before it where
// only a comma stands between the two.
func (n *Canonicalizer) element(base int, value Value) {
	if last := len(n.open) - 1; last >= base && value.kind == asItStands && n.open[last].kind == asItStands && n.open[last].end+1 == value.start {
		n.open[last].end = value.end
		return
	}
	n.open = append(n.open, part{Value: value})
}

// Append writes a value that was read in its canonical form.
func (n *Canonicalizer) Append(out []byte, p Value) []byte {
	switch p.kind {
	case asItStands:
		return append(out, n.doc[p.start:p.end]...)
	case inTexts:
		return append(out, n.texts[p.start:p.end]...)
	case '[':
		out = append(out, '[')
		for i := p.start; i < p.end; i++ {
			if i > p.start {
				out = append(out, ',')
			}
			out = n.Append(out, n.kept[i].Value)
		}
		return append(out, ']')
	}
	out = append(out, '{')
	members := n.kept[p.start:p.end]
	for i := 0; i < len(members); {
		if i > 0 {
			out = append(out, ',')
		}
		m := &members[i]
		i++
		if !m.stands() {
			out = n.member(out, m)
			continue
		}
		end := m.end
		for i < len(members) && members[i].nameStart == end+2 && members[i].stands() { // they stand side by side
			end = members[i].end
			i++
		}
		out = append(out, n.doc[m.nameStart-1:end]...)
	}
	return append(out, '}')
}

// member writes a member that does not stand in the document as it is to be written.
func (n *Canonicalizer) member(out []byte, m *part) []byte {
	switch {
	case m.respelt:
		out = append(appendText(out, n.text(m)), ':')
	case n.doc[m.nameEnd+1] == ':':
		out = append(out, n.doc[m.nameStart-1:m.nameEnd+2]...)
	default:
		out = append(append(out, n.doc[m.nameStart-1:m.nameEnd+1]...), ':')
	}
	return n.Append(out, m.Value)
}
