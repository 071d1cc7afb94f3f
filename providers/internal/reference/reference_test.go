package reference_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/internal/reference"
)

var update = flag.Bool("update", false, "write the generated documents instead of comparing them")

// The documents are generated here and not by a program, since a program would
// need what no other code of the providers may do: touch files.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	loaded := catalogtest.Load(t)
	readme, err := reference.Readme(read(t, "../../README.md"), loaded)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "../../README.md", readme)
	var sources [][]byte
	for _, name := range []string{"spec.go", "spec_verify.go", "spec_body.go", "spec_identity.go", "spec_handshake.go"} {
		sources = append(sources, []byte(read(t, "../../"+name)))
	}
	schema, err := reference.Schema(sources...)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "../../catalog/schema.json", string(schema))
	pages(t, loaded)
}

// pages compares the page of each provider, and reports pages without a provider.
func pages(t *testing.T, loaded map[string]*providers.Provider) {
	t.Helper()
	const folder = "../../docs"
	for name, p := range loaded {
		compare(t, filepath.Join(folder, name+".md"), reference.Page(name, p))
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if loaded[strings.TrimSuffix(entry.Name(), ".md")] == nil {
			t.Errorf("%s is the page of no provider", entry.Name())
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func compare(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if read(t, name) != want {
		t.Errorf("%s is out of date: run go generate ./providers", name)
	}
}
