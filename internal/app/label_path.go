package app

import (
	"strings"
	"unicode/utf8"

	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/jsonspan"
)

// labelPaths finds labels that are members of the body in one pass over its bytes. An expression decodes the whole
// body, which costs more than everything else that the gate does for an event.
type labelPaths struct {
	set *jsonspan.PathSet

	// slots has, for each label, the slots of its path from the body itself to the member. It is nil for any other
	// expression.
	slots [][]int
}

func newLabelPaths(names []string, programs map[string]*expression.Program) *labelPaths {
	p := &labelPaths{slots: make([][]int, len(names))}
	for i, name := range names {
		members, ok := programs[name].Path()
		if !ok {
			continue
		}
		if p.set == nil {
			p.set = jsonspan.NewPathSet()
		}
		p.slots[i] = []int{0}
		for n := range members {
			p.slots[i] = append(p.slots[i], p.set.Add(strings.Join(members[:n+1], ".")))
		}
	}
	return p
}

// labelSpans are the positions of the labels in one body.
type labelSpans struct {
	paths *labelPaths
	body  []byte
	spans []jsonspan.Span // nil if the positions are unknown
}

// read passes over the body once. Expressions compute what it cannot determine.
func (p *labelPaths) read(body []byte) labelSpans {
	out := labelSpans{paths: p, body: body}
	if p.set != nil {
		out.spans, _ = p.set.Walk(body)
	}
	return out
}

// text returns the result of [expression.Program.Text] for a label. known is false if only the expression can compute
// it: for everything but plain texts, whole numbers in their usual form, true, false, null, and members that an object
// lacks.
func (s *labelSpans) text(label int) (value string, err error, known bool) { //nolint:revive // known says whether the others are valid
	slots := s.paths.slots[label]
	if s.spans == nil || slots == nil {
		return "", nil, false
	}
	for i, slot := range slots {
		span := s.spans[slot]
		if !span.Present() {
			around := s.spans[slots[i-1]].Of(s.body)
			return "", expression.ErrMissing, around[0] == '{'
		}
	}
	switch raw := s.spans[slots[len(slots)-1]].Of(s.body); raw[0] {
	case '"':
		inner := string(raw[1 : len(raw)-1])
		if inner == "" {
			return "", expression.ErrNull, true
		}
		return inner, nil, !strings.ContainsRune(inner, '\\') && !strings.ContainsRune(inner, utf8.RuneError) && utf8.ValidString(inner)
	case 't', 'f':
		return string(raw), nil, true
	case 'n':
		return "", expression.ErrNull, true
	default:
		return string(raw), nil, isPlainWhole(raw)
	}
}

// isPlainWhole reports whether a number is written in the usual form of a whole number. Other spellings would be other
// labels.
func isPlainWhole(raw []byte) bool {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(raw) < 19
}
