package expression

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gowebpki/jcs"
)

// ErrNull is a field of a key that is null: two events that both lack it would
// be taken for one.
var ErrNull = errors.New("a field is null")

// Recipe makes an effect's key from an event: what is equal in all fields is one
// effect. It is deterministic, on every machine and for ever.
type Recipe struct {
	// Version begins a new set of keys: another version makes another key of the
	// same fields.
	Version int

	// Fields are the parts of the key, in order.
	Fields []*Program

	// Exclude names members that are left out of fields that are objects, at any
	// depth.
	Exclude []string
}

// maxExact is the largest integer below which every one is a different number
// in JSON's canonical form.
const maxExact = 1 << 53

// Hash gives the key: the SHA-256 of the canonical JSON (RFC 8785) of version and
// fields. The error says which field, by its place and expression.
func (r *Recipe) Hash(in *Input) ([]byte, error) {
	parts := make([]any, 0, len(r.Fields)+1)
	parts = append(parts, r.Version)
	for i, field := range r.Fields {
		value, err := field.Value(in)
		if err == nil && value == nil {
			err = ErrNull
		}
		if err != nil {
			return nil, fmt.Errorf("field %d of the key, %s: %w", i+1, field, err)
		}
		parts = append(parts, r.plain(value))
	}
	document, err := json.Marshal(parts)
	if err != nil {
		return nil, fmt.Errorf("writing the key: %w", ErrType)
	}
	canonical, err := jcs.Transform(document)
	if err != nil {
		return nil, fmt.Errorf("writing the key: %w", ErrType) // what it says may quote the event
	}
	sum := sha256.Sum256(canonical)
	return sum[:], nil
}

// plain leaves out what is excluded, and makes texts of integers that canonical
// JSON would round to their neighbours.
func (r *Recipe) plain(value any) any {
	switch v := value.(type) {
	case int64:
		if v > maxExact || v < -maxExact {
			return strconv.FormatInt(v, 10)
		}
	case uint64:
		if v > maxExact {
			return strconv.FormatUint(v, 10)
		}
	case []any:
		for i := range v {
			v[i] = r.plain(v[i])
		}
	case map[string]any:
		for name := range v {
			if slices.Contains(r.Exclude, name) {
				delete(v, name)
				continue
			}
			v[name] = r.plain(v[name])
		}
	}
	return value
}
