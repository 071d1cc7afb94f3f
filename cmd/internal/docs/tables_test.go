package docs_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/cmd/internal/cli"
	"github.com/oncegate/oncegate/cmd/internal/docs"
)

var update = flag.Bool("update", false, "write the generated regions into the pages")

// pages returns README.md, the pages for the people who work on Oncegate, and everything under docs, by path from the root of the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	read := func(path string) {
		content, err := os.ReadFile(filepath.Join(docs.Root, path))
		if err != nil {
			t.Fatal(err)
		}
		out[path] = string(content)
	}
	for _, path := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "internal/requirements.md"} {
		read(path)
	}
	err := filepath.WalkDir(filepath.Join(docs.Root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			path, err = filepath.Rel(docs.Root, path)
			read(filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every generated table is up to date. -update writes them.
func TestTablesAreUpToDate(t *testing.T) {
	t.Parallel()
	tables, err := docs.Tables(cli.Command())
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for path, content := range pages(t) {
		filled, err := docs.Fill(content, tables)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		used = append(used, docs.Regions(content)...)
		if filled == content {
			continue
		}
		if !*update {
			t.Errorf("%s is out of date: run `go generate ./cmd/internal/docs`", path)
		} else if err := os.WriteFile(filepath.Join(docs.Root, path), []byte(filled), 0o644); err != nil {
			t.Error(err)
		}
	}
	for name := range tables {
		if !slices.Contains(used, name) {
			t.Errorf("no page shows the table %q", name)
		}
	}
}

// Fill replaces outdated content of a region, and returns an error for an unknown region.
func TestFillReplacesRegions(t *testing.T) {
	t.Parallel()
	const page = "a\n<!-- generated: one -->\nold\n<!-- generated: end -->\nb\n"
	filled, err := docs.Fill(page, map[string]string{"one": "new\n"})
	if want := "a\n<!-- generated: one -->\n\nnew\n\n<!-- generated: end -->\nb\n"; filled != want || err != nil {
		t.Errorf("%q, %v; want %q", filled, err, want)
	}
	if again, _ := docs.Fill(filled, map[string]string{"one": "new\n"}); again != filled {
		t.Errorf("filling twice gives %q", again)
	}
	if _, err := docs.Fill(page, map[string]string{}); err == nil {
		t.Error("a region that nothing makes was taken")
	}
}
