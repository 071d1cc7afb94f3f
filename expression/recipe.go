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

	// Defaults are what fields count as that are missing or null, by their place in Fields:
	// a number where it is written like one, else a text. See [Recipe.Default].
	Defaults map[int]any

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
		if ifMissing, ok := r.Defaults[i]; ok && (errors.Is(err, ErrMissing) || err == nil && value == nil) {
			value, err = ifMissing, nil
		}
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

// Default gives the field at a place a default, as it is written in the configuration: 1 is a number,
// as it is in a JSON body, and EUR a text.
func (r *Recipe) Default(field int, text string) {
	if r.Defaults == nil {
		r.Defaults = map[int]any{}
	}
	r.Defaults[field] = text
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		r.Defaults[field] = n
	}
}

// Texts gives the fields as they are written, each with the default that was given to it, so that
// another default is another recipe.
func (r *Recipe) Texts() []string {
	out := make([]string, len(r.Fields))
	for i, f := range r.Fields {
		out[i] = f.String()
		if ifMissing, ok := r.Defaults[i]; ok && out[i] != versionField {
			out[i] += fmt.Sprintf(" or %v", ifMissing)
		}
	}
	return out
}

// versionField has a default of its own: 1.
const versionField = "body.version"

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
