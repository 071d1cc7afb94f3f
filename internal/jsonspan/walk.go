package jsonspan

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// MaxDepth is how many levels deep a JSON document may be nested.
const MaxDepth = 64

// The errors of this package.
var (
	ErrNotJSON = errors.New("not JSON")
	ErrTooDeep = errors.New("JSON nested deeper than 64")
	ErrTwice   = errors.New("JSON has a key twice where one is read")
	ErrNotText = errors.New("not valid text")
	ErrTooMany = errors.New("more elements than are wanted")
)

// Span is the position of a value in a document. An End of zero means that the value is absent.
type Span struct{ Start, End int }

// Present reports whether the value is in the document.
func (s Span) Present() bool { return s.End > 0 }

// Of returns the bytes of the span.
func (s Span) Of(doc []byte) []byte { return doc[s.Start:s.End] }

// PathSet is a set of JSON paths whose values a single pass over a document finds. Accepting a
// delivery therefore builds no tree and no map.
type PathSet struct {
	nodes []pathNode
	index map[string]int // path to node; used while adding paths
	outer *PathSet       // paths in the enclosing element, for nested batches
}

type pathNode struct {
	children []pathChild
}

type pathChild struct {
	name    string
	element int // the name as an array index, or -1
	node    int
}

// NewPathSet returns an empty set.
func NewPathSet() *PathSet {
	return &PathSet{nodes: []pathNode{{}}, index: map[string]int{"$": 0}}
}

// Outer returns the set of paths in the enclosing element, for batches inside batches. It creates
// the set if needed.
func (p *PathSet) Outer() *PathSet {
	if p.outer == nil {
		p.outer = NewPathSet()
	}
	return p.outer
}

// Add adds a path and returns its slot in the result of [PathSet.Walk]. "$" is the whole document,
// in slot 0. Add all paths before you walk the first document.
func (p *PathSet) Add(path string) int {
	if path == "$" {
		return 0
	}
	at, prefix := 0, ""
	for name := range strings.SplitSeq(path, ".") {
		prefix = JoinPath(prefix, name)
		next, ok := p.index[prefix]
		if !ok {
			next = len(p.nodes)
			element := -1
			if n, err := strconv.Atoi(name); err == nil && n >= 0 && strconv.Itoa(n) == name {
				element = n
			}
			p.nodes = append(p.nodes, pathNode{})
			p.nodes[at].children = append(p.nodes[at].children, pathChild{name, element, next})
			p.index[prefix] = next
		}
		at = next
	}
	return at
}

// Slot returns the slot of a path that was added. ok is false if the path was not added.
func (p *PathSet) Slot(path string) (slot int, ok bool) {
	slot, ok = p.index[path]
	return slot, ok
}

// Len returns the number of spans that a walk returns.
func (p *PathSet) Len() int { return len(p.nodes) }

// Walk checks that the document is JSON and returns the span of each path.
func (p *PathSet) Walk(doc []byte) ([]Span, error) { return p.WalkInto(nil, doc) }

// WalkInto is like [PathSet.Walk] and stores the spans in room if room is long enough. All of room
// must be zero.
func (p *PathSet) WalkInto(room []Span, doc []byte) ([]Span, error) {
	if len(p.nodes) > len(room) {
		room = make([]Span, len(p.nodes))
	}
	w := walker{doc: doc, set: p, spans: room[:len(p.nodes)]}
	if err := w.value(0, 0); err != nil {
		return nil, err
	}
	w.space()
	if w.pos != len(doc) {
		return nil, ErrNotJSON
	}
	return w.spans, nil
}

type walker struct {
	doc   []byte
	pos   int
	set   *PathSet
	spans []Span
}

func (w *walker) space() {
	if w.pos < len(w.doc) && w.doc[w.pos] > ' ' {
		return
	}
	for w.pos < len(w.doc) {
		switch w.doc[w.pos] {
		case ' ', '\t', '\n', '\r':
			w.pos++
		default:
			return
		}
	}
}

// value reads the value of a node of the path set. It reads only values on a path and skips all
// others.
func (w *walker) value(node, depth int) error {
	w.space()
	start := w.pos
	n := &w.set.nodes[node]
	var err error
	switch {
	case w.pos >= len(w.doc):
		return ErrNotJSON
	case len(n.children) > 0 && w.doc[w.pos] == '{':
		err = w.object(n, depth+1)
	case len(n.children) > 0 && w.doc[w.pos] == '[':
		err = w.array(n, depth+1)
	default:
		err = w.skip(depth)
	}
	if err != nil {
		return err
	}
	w.spans[node] = Span{start, w.pos}
	return nil
}

func (w *walker) object(n *pathNode, depth int) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	w.pos++
	w.space()
	if w.peek() == '}' {
		w.pos++
		return nil
	}
	for {
		child, err := w.key(n)
		if err != nil {
			return err
		}
		if child < 0 {
			if err := w.skip(depth); err != nil {
				return err
			}
		} else {
			if w.spans[child].Present() {
				return ErrTwice
			}
			if err := w.value(child, depth); err != nil {
				return err
			}
		}
		w.space()
		switch w.peek() {
		case ',':
			w.pos++
		case '}':
			w.pos++
			return nil
		default:
			return ErrNotJSON
		}
	}
}

// key skips a key and its colon and returns the key's node below n, or -1 if no path has the key.
func (w *walker) key(n *pathNode) (child int, err error) {
	w.space()
	doc, start := w.doc, w.pos
	i := start + 1
	for i >= 0 && i <= len(doc)-8 {
		if found := stops(binary.LittleEndian.Uint64(doc[i:])); found != 0 {
			i += first(found)
			break
		}
		i += 8
	}
	if start >= 0 && start < i && i < len(doc)-1 && doc[start] == '"' && doc[i] == '"' && doc[i+1] == ':' {
		w.pos = i + 2
		return n.child(doc[start+1 : i]), nil
	}
	end := scanKey(doc, start)
	if end < 0 {
		return -1, ErrNotJSON
	}
	w.pos = end
	name, err := Unquote(doc[start:scanText(doc, start)])
	if err != nil {
		return -1, nil //nolint:nilerr // a name that cannot be decoded matches no path
	}
	return n.child([]byte(name)), nil
}

// child returns the node of that name below n, or -1 if there is none.
func (n *pathNode) child(name []byte) int {
	for i := range n.children {
		if c := &n.children[i]; c.name == string(name) {
			return c.node
		}
	}
	return -1
}

// element returns the node of the i-th element below n, or -1 if there is none.
func (n *pathNode) element(i int) int {
	child := -1
	for _, c := range n.children {
		if c.element == i {
			child = c.node
		}
	}
	return child
}

func (w *walker) array(n *pathNode, depth int) error {
	if depth > MaxDepth {
		return ErrTooDeep
	}
	w.pos++
	w.space()
	if w.peek() == ']' {
		w.pos++
		return nil
	}
	for i := 0; ; i++ {
		child := n.element(i)
		var err error
		if child >= 0 {
			err = w.value(child, depth)
		} else {
			err = w.skip(depth)
		}
		if err != nil {
			return err
		}
		w.space()
		switch w.peek() {
		case ',':
			w.pos++
		case ']':
			w.pos++
			return nil
		default:
			return ErrNotJSON
		}
	}
}

func (w *walker) peek() byte {
	if w.pos < len(w.doc) {
		return w.doc[w.pos]
	}
	return 0
}

// skip skips one value.
func (w *walker) skip(depth int) error {
	switch end := skipValue(w.doc, w.pos, depth); end {
	case notJSON:
		return ErrNotJSON
	case tooDeep:
		return ErrTooDeep
	default:
		w.pos = end
		return nil
	}
}

// Elements returns the spans of the elements of an array. It returns [ErrTooMany] if there are more
// than limit.
func Elements(doc []byte, at Span, limit int) ([]Span, error) {
	w := walker{doc: doc[:at.End], pos: at.Start}
	if w.peek() != '[' {
		return nil, ErrNotJSON
	}
	w.pos++
	w.space()
	if w.peek() == ']' {
		return nil, nil
	}
	var out []Span
	for {
		w.space()
		start := w.pos
		if err := w.skip(1); err != nil {
			return nil, err
		}
		if len(out) == limit {
			return nil, ErrTooMany
		}
		out = append(out, Span{start, w.pos})
		w.space()
		switch w.peek() {
		case ',':
			w.pos++
		case ']':
			return out, nil
		default:
			return nil, ErrNotJSON
		}
	}
}
