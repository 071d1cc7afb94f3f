package providers

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// maxDepth is how deep a JSON document may nest.
const maxDepth = 64

var (
	errNotJSON   = errors.New("not JSON")
	errTooDeep   = errors.New("JSON nested deeper than 64")
	errTwice     = errors.New("JSON has a key twice where one is read")
	errNotText   = errors.New("not valid text")
	errNotScalar = errors.New("neither a text nor a whole number")
)

// span is a piece of a document; a zero end means absent.
type span struct{ start, end int }

func (s span) present() bool { return s.end > 0 }

// pathSet is a set of JSON paths, walked together in one pass over a document:
// the accepted path of a delivery builds no tree and no map.
type pathSet struct {
	nodes []pathNode
	index map[string]int // path to node, while building
	outer *pathSet       // of the element around, in nested batches
}

type pathNode struct {
	children []pathChild
}

type pathChild struct {
	name    string
	element int // the name as an index into an array; -1 if it is none
	node    int
}

func newPathSet() *pathSet {
	return &pathSet{nodes: []pathNode{{}}, index: map[string]int{"$": 0}}
}

// parents is the set of paths in the element around.
func (p *pathSet) parents() *pathSet {
	if p.outer == nil {
		p.outer = newPathSet()
	}
	return p.outer
}

// add returns the slot of the path in the result of walk.
func (p *pathSet) add(path string) int {
	if path == "$" {
		return 0
	}
	at, prefix := 0, ""
	for name := range strings.SplitSeq(path, ".") {
		prefix = join(prefix, name)
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

// walk checks that the document is JSON and returns the span of each path.
func (p *pathSet) walk(doc []byte) ([]span, error) { return p.walkInto(nil, doc) }

// walkInto is walk with room for the spans, which is all zero.
func (p *pathSet) walkInto(room []span, doc []byte) ([]span, error) {
	if len(p.nodes) > len(room) {
		room = make([]span, len(p.nodes))
	}
	w := walker{doc: doc, set: p, spans: room[:len(p.nodes)]}
	if err := w.value(0, 0); err != nil {
		return nil, err
	}
	w.space()
	if w.pos != len(doc) {
		return nil, errNotJSON
	}
	return w.spans, nil
}

type walker struct {
	doc   []byte
	pos   int
	set   *pathSet
	spans []span
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

// value reads the value of a node of the path set. Only nodes that a path goes
// through are read here; everything else is skipped.
func (w *walker) value(node, depth int) error {
	w.space()
	start := w.pos
	n := &w.set.nodes[node]
	var err error
	switch {
	case w.pos >= len(w.doc):
		return errNotJSON
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
	w.spans[node] = span{start, w.pos}
	return nil
}

func (w *walker) object(n *pathNode, depth int) error {
	if depth > maxDepth {
		return errTooDeep
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
			if w.spans[child].present() {
				return errTwice
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
			return errNotJSON
		}
	}
}

// key passes over a key and its colon and finds the node it names; -1 if none.
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
		return -1, errNotJSON
	}
	w.pos = end
	name, err := unquote(doc[start:scanText(doc, start)])
	if err != nil {
		return -1, nil //nolint:nilerr // what is no text is no name we look for
	}
	return n.child([]byte(name)), nil
}

// child is the node of that name below n; -1 if there is none.
func (n *pathNode) child(name []byte) int {
	for i := range n.children {
		if c := &n.children[i]; c.name == string(name) {
			return c.node
		}
	}
	return -1
}

// element is the node of the i-th element below n; -1 if there is none.
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
	if depth > maxDepth {
		return errTooDeep
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
			return errNotJSON
		}
	}
}

func (w *walker) peek() byte {
	if w.pos < len(w.doc) {
		return w.doc[w.pos]
	}
	return 0
}

// skip passes over one value.
func (w *walker) skip(depth int) error {
	switch end := skipValue(w.doc, w.pos, depth); end {
	case notJSON:
		return errNotJSON
	case tooDeep:
		return errTooDeep
	default:
		w.pos = end
		return nil
	}
}

// elements returns the spans of the elements of an array, at most limit.
func elements(doc []byte, at span, limit int) ([]span, error) {
	w := walker{doc: doc[:at.end], pos: at.start}
	if w.peek() != '[' {
		return nil, errNotJSON
	}
	w.pos++
	w.space()
	if w.peek() == ']' {
		return nil, nil
	}
	var out []span
	for {
		w.space()
		start := w.pos
		if err := w.skip(1); err != nil {
			return nil, err
		}
		if len(out) == limit {
			return nil, errTooMany
		}
		out = append(out, span{start, w.pos})
		w.space()
		switch w.peek() {
		case ',':
			w.pos++
		case ']':
			return out, nil
		default:
			return nil, errNotJSON
		}
	}
}
