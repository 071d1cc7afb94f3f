package reference_test

import (
	"flag"
	"os"
	"testing"

	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/internal/reference"
)

var update = flag.Bool("update", false, "write the generated documents instead of comparing them")

// The documents are generated here and not by a program, since a program would
// need what no other code of the providers may do: touch files.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := reference.Readme(read(t, "../../README.md"), loaded)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "../../README.md", readme)
	schema, err := reference.Schema([]byte(read(t, "../../spec.go")))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "../../catalog/schema.json", string(schema))
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
