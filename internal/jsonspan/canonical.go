package jsonspan

import (
	"bytes"
	"encoding/binary"
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
