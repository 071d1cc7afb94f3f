package reference_test

import (
	"os"
	"testing"

	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/internal/reference"
)

func TestUpToDate(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := reference.Readme(string(text), loaded)
	if err != nil {
		t.Fatal(err)
	}
	if want != string(text) {
		t.Error("README.md is out of date: run go generate ./providers")
	}
	source, err := os.ReadFile("../../spec.go")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := reference.Schema(source)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../catalog/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != string(schema) {
		t.Error("catalog/schema.json is out of date: run go generate ./providers")
	}
}
