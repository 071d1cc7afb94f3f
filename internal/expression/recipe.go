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

// ErrNull means that a field of a key is null. The field is refused because two events without it
// would get the same key.
var ErrNull = errors.New("a field is null")

// Recipe derives an effect's key from an event. Events with equal fields have the same effect. The
// key is deterministic: every machine and every release computes the same one.
type Recipe struct {
	// Version starts a new set of keys: the same fields with another version result in another key.
	Version int

	// Fields are the parts of the key, in order.
	Fields []*Program

	// Defaults contains the values for fields that are missing or null, by their index in Fields: a
	// number if the default is written like one, otherwise a text. See [Recipe.Default].
	Defaults map[int]any

	// Exclude names members that are left out of object fields, at any depth.
	Exclude []string
}

// maxExact is the largest integer up to which JSON's canonical form represents every integer
// exactly.
const maxExact = 1 << 53

// Hash returns the key: the SHA-256 of the canonical JSON (RFC 8785) of version and fields. The
// error names the field by its position and expression.
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
		return nil, fmt.Errorf("writing the key: %w", ErrType) // the library's message may quote the event
	}
	sum := sha256.Sum256(canonical)
	return sum[:], nil
}

// ReadsFetched reports whether a field uses the answer of the route's fetch.
func (r *Recipe) ReadsFetched() bool {
	return slices.ContainsFunc(r.Fields, (*Program).ReadsFetched)
}

// Default sets the default of the field at an index, from its text in the configuration: 1 becomes
// a number, as in a JSON body, and EUR a text.
func (r *Recipe) Default(field int, text string) {
	if r.Defaults == nil {
		r.Defaults = map[int]any{}
	}
	r.Defaults[field] = text
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		r.Defaults[field] = n
	}
}

// Texts returns the source texts of the fields, each with its configured default, so that a
// different default makes a different recipe.
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

// versionField is a field with a built-in default, 1.
const versionField = "body.version"

// plain removes the excluded members, and converts integers to text that canonical JSON would
// round.
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
