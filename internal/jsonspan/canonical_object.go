package jsonspan

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

func (n *Canonicalizer) object(node, depth int, volatile [][]string) (Value, error) {
	if depth > MaxDepth {
		return Value{}, ErrTooDeep
	}
	doc, start := n.doc, n.pos
	i := SkipBlank(doc, start+1)
	base, length := len(n.open), 1
	clean, sorted := true, true // already in canonical form; members in order
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
			n.none = true // an object repeats a key
		}
		return n.close('{', base, start, clean && sorted && n.pos-start == length), nil
	}
}

// stands reports whether the member's bytes in the document are its canonical form.
func (m *part) stands() bool {
	return m.kind == asItStands && m.start == m.nameEnd+2 && !m.respelt
}

// respell decodes a name that contains escapes.
func (n *Canonicalizer) respell(m *part) {
	text, err := Unquote(n.doc[m.nameStart-1 : m.nameEnd+1])
	if err != nil {
		n.none, m.nameEnd = true, m.nameStart // a name that cannot be decoded matches no path
		return
	}
	m.nameStart, m.respelt = int32(len(n.texts)), true
	n.texts = append(n.texts, text...)
	m.nameEnd = int32(len(n.texts))
}

// text returns the decoded name of a member.
func (n *Canonicalizer) text(m *part) []byte {
	if m.respelt {
		return n.texts[m.nameStart:m.nameEnd]
	}
	return n.doc[m.nameStart:m.nameEnd]
}

// prefix returns the first eight bytes of a name as a number that sorts in the same order.
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

// fewMembers is the largest number of members that sort orders by insertion sort.
const fewMembers = 12

// sort orders members by name. It reports whether all names differ.
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
