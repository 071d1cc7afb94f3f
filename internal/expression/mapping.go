package expression

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Mapping builds a JSON value from an event: one expression, or an object whose members are
// mappings.
type Mapping struct {
	program *Program
	members map[string]*Mapping
}

// NewMapping returns the mapping of one expression.
func NewMapping(p *Program) *Mapping { return &Mapping{program: p} }

// NewObject returns the mapping of an object.
func NewObject(members map[string]*Mapping) *Mapping { return &Mapping{members: members} }

// Value evaluates the mapping. The error names the member and the expression.
func (m *Mapping) Value(in *Input) (any, error) {
	if m.program != nil {
		value, err := m.program.Value(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.program, err)
		}
		return value, nil
	}
	out := make(map[string]any, len(m.members))
	for _, name := range slices.Sorted(maps.Keys(m.members)) {
		value, err := m.members[name].Value(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = value
	}
	return out, nil
}

// JSON evaluates the mapping and encodes the result. The same event always results in the same
// bytes.
func (m *Mapping) JSON(in *Input) ([]byte, error) {
	value, err := m.Value(in)
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(value)
	if err != nil {
		return nil, ErrType
	}
	return document, nil
}

// ReadsFetched reports whether an expression of the mapping uses the answer of the route's fetch.
func (m *Mapping) ReadsFetched() bool {
	if m.program != nil {
		return m.program.ReadsFetched()
	}
	for _, member := range m.members {
		if member.ReadsFetched() {
			return true
		}
	}
	return false
}

// Source returns the mapping as configured, for digests and output: the source text of an
// expression, or an object of such texts.
func (m *Mapping) Source() any {
	if m.program != nil {
		return m.program.String()
	}
	out := make(map[string]any, len(m.members))
	for name, member := range m.members {
		out[name] = member.Source()
	}
	return out
}
