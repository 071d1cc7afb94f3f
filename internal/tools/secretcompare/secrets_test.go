package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The lists name only existing fields and types, because a renamed one would no longer be checked.
func TestListsNameWhatExists(t *testing.T) {
	t.Parallel()
	for path := range fields {
		name := path[:strings.LastIndexByte(path, '.')]
		field := path[len(name)+1:]
		structure, ok := declaration(t, name).(*ast.StructType)
		if !ok {
			t.Errorf("%s: there is no such struct", name)
			continue
		}
		found := false
		for _, f := range structure.Fields.List {
			for _, ident := range f.Names {
				found = found || ident.Name == field
			}
		}
		if !found {
			t.Errorf("%s: there is no such field", path)
		}
	}
	for name := range whole {
		if declaration(t, name) == nil {
			t.Errorf("%s: there is no such type", name)
		}
	}
	for name := range macs {
		path, ours := strings.CutPrefix(strings.TrimPrefix(name, "(*"), module)
		if !ours {
			continue
		}
		receiver, method, isMethod := strings.Cut(path, ").")
		dir := path[:strings.LastIndexByte(path, '.')]
		function := path[strings.LastIndexByte(path, '.')+1:]
		if isMethod {
			dir, function = receiver[:strings.LastIndexByte(receiver, '.')], method
		}
		found := false
		each(t, dir, func(d ast.Decl) {
			f, ok := d.(*ast.FuncDecl)
			found = found || ok && f.Name.Name == function
		})
		if !found {
			t.Errorf("%s: there is no such function", name)
		}
	}
}

// declaration returns the declaration of a type, by path and name.
func declaration(t *testing.T, path string) (found ast.Expr) {
	t.Helper()
	dir, name := path[:strings.LastIndexByte(path, '.')], path[strings.LastIndexByte(path, '.')+1:]
	each(t, dir, func(d ast.Decl) {
		if general, ok := d.(*ast.GenDecl); ok {
			for _, spec := range general.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.Name == name {
					found = s.Type
				}
			}
		}
	})
	return found
}

func each(t *testing.T, dir string, use func(ast.Decl)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", dir, err)
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, content, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			use(d)
		}
	}
}
