package jsonspan

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// Canonical returns the canonical form of a JSON document, in which the order of keys, white space
// and the escaping of strings do not matter. The form follows RFC 8785, except that numbers keep
// their spelling and the fields at the volatile paths are left out. ok is false if the document is
// not JSON, or if an object repeats a key, because the document is then ambiguous.
func Canonical(doc []byte, volatile [][]string) (canonical []byte, ok bool) {
	var n Canonicalizer
	root, err := n.Read(doc, volatile, nil, nil)
	if err != nil || n.none {
		return nil, false
	}
	return n.Append(make([]byte, 0, len(doc)), root), true
}

// Canonicalizer writes JSON values in the form of [Canonical], in one pass over the document and
// without building a tree. It can be reused for other documents and keeps its buffers.
//
// Most of a document is already in canonical form, so Canonicalizer copies the longest pieces
// possible. It copies a value if the value contains no white space, no escape that the canonical
// form spells differently, no volatile member and no object whose members are out of order. It
// records the parts only of objects and arrays that differ from their canonical form, and writes
// each byte once.
type Canonicalizer struct {
	walker
	texts []byte // names and strings whose canonical spelling differs from the document's
	open  []part // members and elements of the objects and arrays not yet closed
	kept  []part // the parts of closed objects and arrays that must be rewritten
	none  bool   // the document has no canonical form
}

// part is a member of an object or an element of an array. Consecutive elements that can be copied
// form one part.
type part struct {
	prefix             uint64 // the first eight bytes of the name, for comparison
	nameStart, nameEnd int32  // of the decoded name: an offset in texts if respelt, else in the document
	Value
	respelt bool
}

// Value describes a value that was read: where its bytes are, and whether they must be rewritten.
type Value struct {
	start, end int32 // offsets in the document, in texts, or in kept
	kind       byte
}

// The kinds of a Value. Any other kind is the opening bracket of an object or array that must be
// rewritten.
const (
	asItStands = 0
	inTexts    = 't'
)

// MaxCanonical is the length, in bytes, of the longest document that has a canonical form here. No
// provider accepts a document that long.
const MaxCanonical = 1 << 30

// Read reads a document and returns its root for [Canonicalizer.Append]. If set is not nil, Read
// also finds the spans of its paths, with the errors of [PathSet.WalkInto]. A document whose fields
// and digest are both needed is therefore read once.
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

// HasForm reports whether the document that was read has a canonical form. A document has none if
// an object repeats a key, if it is not valid UTF-8, or if it is longer than [MaxCanonical].
func (n *Canonicalizer) HasForm() bool { return !n.none }

// Release drops the reference to the document.
func (n *Canonicalizer) Release() { n.walker = walker{} }

// nowhere is the node of a value that is on no path.
const nowhere = -1

// at reads a value and records its span if it belongs to a node.
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

// Room returns how many bytes the buffers kept for the next document use.
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
		// A string with lone surrogates keeps its spelling because it cannot be decoded.
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

// scalar reads the value at the current position if it is a scalar already in canonical form, as
// most values are. It returns false, and reads nothing, for any other value.
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

// textEnd returns the end of the string that begins at i, or -1 if there is no string. escaped
// reports whether the string contains an escape.
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

// close ends an object or array. If clean is true, the returned Value refers to the document;
// otherwise close keeps the parts, to be rewritten.
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
