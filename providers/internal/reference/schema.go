package reference

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// Schema returns the JSON Schema of a spec. sources are the Go files that declare its types. Their
// comments become the descriptions.
func Schema(sources ...[]byte) ([]byte, error) {
	comments, err := comments(sources)
	if err != nil {
		return nil, err
	}
	s := schema{comments: comments, defs: map[string]any{}}
	root := s.of(reflect.TypeFor[providers.Spec]())
	out := map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "An Oncegate provider",
		"description": comments["Spec"],
		"$ref":        root["$ref"],
		"$defs":       s.defs,
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	return append(text, '\n'), nil
}

type schema struct {
	comments map[string]string
	defs     map[string]any
}

func (s *schema) of(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[providers.Duration]():
		return map[string]any{"type": "string", "pattern": `^(none|([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+)$`}
	case reflect.TypeFor[providers.Size]():
		return map[string]any{"type": []string{"string", "integer"}, "pattern": `^[0-9]+ ?(B|kB|MB|GB|KiB|MiB|GiB)?$`}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		// The YAML also accepts a single element instead of a list.
		item := s.of(t.Elem())
		return map[string]any{"anyOf": []any{map[string]any{"type": "array", "items": item}, item}}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.reference(t)
	default:
		// The default is a text. YAML also accepts an unquoted number for it.
	}
	return map[string]any{"type": []string{"string", "number"}}
}

func (s *schema) reference(t reflect.Type) map[string]any {
	ref := map[string]any{"$ref": "#/$defs/" + t.Name()}
	if _, ok := s.defs[t.Name()]; ok {
		return ref
	}
	s.defs[t.Name()] = nil // ends the recursion of Field
	properties := map[string]any{}
	for f := range t.Fields() {
		tag := f.Tag.Get("yaml")
		if tag == "-" {
			continue
		}
		property := s.of(f.Type)
		if text := s.comments[t.Name()+"."+f.Name]; text != "" {
			property["description"] = text
		}
		properties[tag] = property
	}
	object := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if t == reflect.TypeFor[providers.Part]() {
		s.defs[t.Name()] = map[string]any{"anyOf": []any{
			map[string]any{"type": "string", "enum": []string{"body", "body-base64", "body-sha256", "timestamp", "method", "url", "path", "query", "document", "form-sorted", "secret"}}, object,
		}}
		return ref
	}
	s.defs[t.Name()] = object
	return ref
}

// comments returns the comments of structs and their fields.
func comments(sources [][]byte) (map[string]string, error) {
	out := map[string]string{}
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), "spec.go", source, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("reading the comments: %w", err)
		}
		for _, decl := range file.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok {
				readComments(gen, out)
			}
		}
	}
	return out, nil
}

func readComments(gen *ast.GenDecl, out map[string]string) {
	for _, spec := range gen.Specs {
		named, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		out[named.Name.Name] = sentence(gen.Doc)
		structure, ok := named.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range structure.Fields.List {
			for _, name := range field.Names {
				out[named.Name.Name+"."+name.Name] = sentence(field.Doc)
			}
		}
	}
}

func sentence(doc *ast.CommentGroup) string {
	if doc == nil {
		return ""
	}
	return strings.Join(strings.Fields(doc.Text()), " ")
}
