package openapi_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/oncegate/oncegate/docs/reference"
	"github.com/oncegate/oncegate/internal/api/openapi"
	"github.com/oncegate/oncegate/internal/control"
)

var update = flag.Bool("update", false, "write the description")

var root = filepath.Join("..", "..", "..")

func TestTheDescriptionIsUpToDate(t *testing.T) {
	t.Parallel()
	document, err := openapi.Build(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := openapi.Text(document)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, "docs", "reference", "openapi.json"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, reference.OpenAPI()) {
		t.Error("docs/reference/openapi.json is out of date: run `go generate ./internal/api/openapi`")
	}
}

// load reads the description as somebody does who has nothing else.
func load(t *testing.T) *openapi3.T {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromData(reference.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func TestTheDescriptionIsValidOpenAPI(t *testing.T) {
	t.Parallel()
	document := load(t)
	if err := document.Validate(t.Context(), openapi3.IsOpenAPI31OrLater()); err != nil {
		t.Error(err)
	}
	if document.OpenAPI != "3.1.0" || document.Paths.Len() == 0 {
		t.Errorf("the description is of version %s with %d paths", document.OpenAPI, document.Paths.Len())
	}
}

// Every operation is described, and nothing else is.
func TestOperationsAndPathsAreTheSame(t *testing.T) {
	t.Parallel()
	document := load(t)
	described := map[string]string{}
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			described[method+" "+path] = operation.OperationID
		}
	}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if described[d.Method+" "+d.Path] != d.ID {
			t.Errorf("%s %s is described as %q, want %s", d.Method, d.Path, described[d.Method+" "+d.Path], d.ID)
		}
		delete(described, d.Method+" "+d.Path)
	}
	for route, id := range described {
		t.Errorf("%s is described as %s, and no operation is there", route, id)
	}
}

// Whoever reads only the description knows what each member and parameter means.
func TestEveryMemberIsDescribed(t *testing.T) {
	t.Parallel()
	document := load(t)
	for name, schema := range document.Components.Schemas {
		for member, property := range schema.Value.Properties {
			if property.Value.Description == "" {
				t.Errorf("%s.%s has no description", name, member)
			}
		}
	}
	for path, item := range document.Paths.Map() {
		for _, operation := range item.Operations() {
			for _, parameter := range operation.Parameters {
				if parameter.Value.Description == "" {
					t.Errorf("%s: the parameter %s has no description", path, parameter.Value.Name)
				}
			}
		}
	}
}
