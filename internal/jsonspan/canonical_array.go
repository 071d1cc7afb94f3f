package jsonspan

import (
	"strconv"
)

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

// element adds an element to the open array. It extends the previous part if only a comma separates
// the two in the document.
func (n *Canonicalizer) element(base int, value Value) {
	if last := len(n.open) - 1; last >= base && value.kind == asItStands && n.open[last].kind == asItStands && n.open[last].end+1 == value.start {
		n.open[last].end = value.end
		return
	}
	n.open = append(n.open, part{Value: value})
}
