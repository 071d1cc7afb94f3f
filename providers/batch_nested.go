package providers

import (
	"bytes"
	"errors"
	"strings"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// nestedMark separates the arrays of a nested batch.
const nestedMark = ".*."

// nested is an array inside each element of another array.
type nested struct {
	paths *jsonspan.PathSet // of the surrounding element
	slot  int               // of the array in the surrounding element
}

// newNested compiles the arrays below the first. Fields named parent are read in the innermost
// element around the events.
func newNested(path string, item *jsonspan.PathSet) []nested {
	arrays := strings.Split(path, nestedMark)
	out := make([]nested, len(arrays))
	for i, array := range arrays {
		paths := jsonspan.NewPathSet()
		if i == len(arrays)-1 {
			paths = item.Outer()
		}
		out[i] = nested{paths, paths.Add(array)}
	}
	return out
}

// element is one event of a batch: its position in the document and in the body, and the element
// around it.
type element struct {
	jsonspan.Span
	body        jsonspan.Span
	parent      []byte
	parentSpans []jsonspan.Span
}

// elements returns the events of a batch.
func (x *extraction) elements(s *source) ([]element, error) {
	if s.envelopeSpans == nil {
		return nil, jsonspan.ErrNotJSON
	}
	var out []element
	if !s.envelopeSpans[x.split].Present() {
		if x.otherwise != "elements" || s.envelope[s.envelopeSpans[0].Start] != '[' {
			return nil, jsonspan.ErrNotJSON
		}
		err := x.descend(s.envelope, s.envelopeSpans[0], nil, element{}, &out)
		return out, err
	}
	err := x.descend(s.envelope, s.envelopeSpans[x.split], x.nested, element{}, &out)
	return out, err
}

// descend collects the elements of an array, or of the arrays inside them. An element without the
// inner array becomes an event itself, so that nothing is lost.
func (x *extraction) descend(doc []byte, array jsonspan.Span, below []nested, around element, out *[]element) error {
	parts, err := jsonspan.Elements(doc, array, maxItems)
	if errors.Is(err, jsonspan.ErrTooMany) {
		return errTooMany
	}
	if err != nil {
		return err
	}
	for _, at := range parts {
		one := around
		one.Span, one.body = at, at
		if len(below) > 0 {
			inner := doc[at.Start:at.End]
			spans, err := below[0].paths.Walk(inner)
			if err != nil {
				return err
			}
			inside := spans[below[0].slot]
			if inside.Present() && inner[inside.Start] == '[' {
				shifted := jsonspan.Span{Start: inside.Start + at.Start, End: inside.End + at.Start}
				here := element{parent: inner, parentSpans: spans}
				if err := x.descend(doc, shifted, below[1:], here, out); err != nil {
					return err
				}
				continue
			}
		}
		if len(*out) == maxItems {
			return errTooMany
		}
		*out = append(*out, one)
	}
	return nil
}

var errEncoded = errors.New("the form field cannot be found in the body")

// encoded finds the events' encoded bytes in a form body.
func (x *extraction) encoded(s *source, parts []element) error {
	start, end := -1, 0
	for at := 0; at < len(s.req.Body); {
		stop := len(s.req.Body)
		if i := bytes.IndexByte(s.req.Body[at:], '&'); i >= 0 {
			stop = at + i
		}
		name, value, _ := strings.Cut(string(s.req.Body[at:stop]), "=")
		if name == x.splitForm {
			start, end = stop-len(value), stop
		}
		at = stop + 1
	}
	if start < 0 {
		return errEncoded
	}
	// Each decoded byte was encoded as one byte or as three.
	position, decoded := start, 0
	next := func(until int) bool {
		for decoded < until {
			if position >= end {
				return false
			}
			if s.req.Body[position] == '%' {
				position += 2
			}
			position++
			decoded++
		}
		return true
	}
	for i := range parts {
		if !next(parts[i].Start) {
			return errEncoded
		}
		parts[i].body.Start = position
		if !next(parts[i].End) {
			return errEncoded
		}
		parts[i].body.End = position
	}
	return nil
}

// structure returns the canonical form of a value of any kind, for a hash.
func (f *field) structure(s *source) (string, bool, error) {
	raw := f.raw(s)
	t, ok := jsonspan.ParseTree(raw, nil)
	if !ok {
		return "", false, errNotScalar
	}
	return string(t.Append(nil)), true, nil
}

// raw returns the unchanged bytes of a JSON value.
func (f *field) raw(s *source) []byte {
	doc, spans := s.item, s.itemSpans
	switch {
	case f.Parent != "":
		doc, spans = s.parent, s.parentSpans
	case f.Envelope != "":
		doc, spans = s.envelope, s.envelopeSpans
	}
	if spans == nil || f.slot >= len(spans) || !spans[f.slot].Present() {
		return nil
	}
	return doc[spans[f.slot].Start:spans[f.slot].End]
}

// fraction reads a number of seconds with decimals. Only times use it.
func (f *field) fraction(s *source) (string, bool, error) {
	raw := string(f.raw(s))
	if strings.ContainsAny(raw, "eE-") || !strings.Contains(raw, ".") {
		return "", false, errNotScalar
	}
	return raw, true, nil
}
