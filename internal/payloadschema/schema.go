// Package payloadschema checks payloads against a JSON Schema from the configuration. It is a small
// wrapper around github.com/santhosh-tekuri/jsonschema that limits the cost of checking a payload,
// and whose messages contain paths and never values.
//
//	schema, err := payloadschema.Load("charge.schema.json")
//	paths, detail := schema.Check(body)
package payloadschema

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxFile is the maximum size of a schema file, in bytes.
const maxFile = 1 << 20

// Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	schema *jsonschema.Schema
	digest string
	json   []byte
}

// Load reads and compiles a schema. It also reads the local files to which the schema refers, but
// fetches nothing from the network. Formats are checked. The draft is the one in $schema, or
// 2020-12 by default.
func Load(file string) (*Schema, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	files := &loader{read: sha256.New()}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(files)
	compiler.AssertFormat()
	address := (&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String()
	schema, err := compiler.Compile(address)
	if err != nil {
		return nil, errors.New(loadError(err))
	}
	return &Schema{schema: schema, digest: hex.EncodeToString(files.read.Sum(nil)[:8]), json: files.first}, nil
}

// Digest returns a digest of the schema and of the files to which it refers.
func (s *Schema) Digest() string { return s.digest }

// JSON returns the content of the schema's file, without the files to which it refers.
func (s *Schema) JSON() []byte { return s.json }

// loadError returns the first line of the library's error, which can be pages long.
func loadError(err error) string {
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return fmt.Sprintf("reading %s: %v", path.Base(load.URL), load.Err)
	}
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if misfit, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			_, detail := describe(misfit)
			return "it is no JSON Schema: " + detail
		}
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// loader reads only local files.
type loader struct {
	read interface {
		Write([]byte) (int, error)
		Sum([]byte) []byte
	}
	first []byte // the content of the first file
}

func (l *loader) Load(address string) (any, error) {
	path, err := jsonschema.FileLoader{}.ToFile(address)
	if err != nil {
		return nil, errors.New("only files are read; keep a copy next to the schema and refer to that")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Unwrap(err) // without the path, which the caller adds
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("it is longer than %d bytes", maxFile)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	_, _ = l.read.Write(content) // of a hash: never fails
	if l.first == nil {
		l.first = content
	}
	return document, nil
}

// Check returns the JSON paths at which a payload does not match the schema, and one line that
// describes the problems. Both are empty if the payload matches. The line contains names of members
// and what the schema wants, never a value of the payload.
func (s *Schema) Check(payload []byte) (paths []string, detail string) {
	value, problem := parse(payload)
	if problem != "" {
		return []string{"$"}, problem
	}
	if path, ok := unboundedNumber(value, ""); ok {
		return []string{path}, path + ": a number of more than 1,000 digits, or with an exponent beyond 1,000"
	}
	err := s.schema.Validate(value)
	if err == nil {
		return nil, ""
	}
	misfit, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []string{"$"}, "$: cannot be checked"
	}
	return describe(misfit)
}

// Limits of numbers. The library converts numbers to fractions: a short number with a large
// exponent would exhaust the memory, and with an even larger exponent the conversion fails.
const (
	maxNumber   = 1000 // characters
	maxExponent = 1000
)

func unboundedNumber(value any, path string) (string, bool) {
	switch v := value.(type) {
	case json.Number:
		return at(path), len(v) > maxNumber || exponentBeyond(string(v))
	case []any:
		for i := range v {
			if path, ok := unboundedNumber(v[i], joinPath(path, fmt.Sprint(i))); ok {
				return path, true
			}
		}
	case map[string]any:
		for name := range v {
			if path, ok := unboundedNumber(v[name], joinPath(path, name)); ok {
				return path, true
			}
		}
	}
	return "", false
}

func exponentBeyond(number string) bool {
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return false
	}
	digits := strings.TrimLeft(strings.TrimLeft(number[i+1:], "+-"), "0")
	return len(digits) > 4 || len(digits) == 4 && digits > fmt.Sprint(maxExponent)
}
