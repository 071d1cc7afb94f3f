package docs

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Root is the path from this package to the root of the repository.
const Root = "../../.."

// source is one Go file of the product. Tests and trial programs are excluded.
type source struct {
	path string
	file *ast.File
}

// sources parses the product's packages.
func sources() ([]source, error) {
	var out []source
	set := token.NewFileSet()
	for _, top := range []string{"inbox", "internal", "jobs", "providers", "cmd/internal", "."} {
		err := filepath.WalkDir(filepath.Join(Root, top), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "trials" || top == "." && path != Root):
				return filepath.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return fmt.Errorf("parsing %s: %w", path, err)
			}
			out = append(out, source{path: path, file: file})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// constant is one string constant with its documentation.
type constant struct{ name, value, doc string }

// constantsOf returns the constants of a named type of a package, in source order.
func constantsOf(all []source, pkg, kind string) ([]constant, error) {
	var out []constant
	eachConstant(all, func(file *ast.File, spec *ast.ValueSpec) {
		if ident, ok := spec.Type.(*ast.Ident); ok && ident.Name == kind && file.Name.Name == pkg {
			out = append(out, constantOf(spec))
		}
	})
	return checked(out, pkg+"."+kind)
}

// constantsIn returns the string constants of a package, in source order.
func constantsIn(all []source, pkg string) ([]constant, error) {
	var out []constant
	eachConstant(all, func(file *ast.File, spec *ast.ValueSpec) {
		if c := constantOf(spec); file.Name.Name == pkg && c.value != "" {
			out = append(out, c)
		}
	})
	return checked(out, "package "+pkg)
}

// constantsNamed returns the string constants of all packages whose name matches.
func constantsNamed(all []source, name *regexp.Regexp) ([]constant, error) {
	var out []constant
	eachConstant(all, func(_ *ast.File, spec *ast.ValueSpec) {
		if c := constantOf(spec); name.MatchString(c.name) && c.value != "" {
			out = append(out, c)
		}
	})
	slices.SortStableFunc(out, func(a, b constant) int { return cmp.Compare(a.value, b.value) })
	return checked(out, name.String())
}

func checked(all []constant, what string) ([]constant, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("no constants of %s: did the type move or change its name?", what)
	}
	for _, c := range all {
		if c.doc == "" {
			return nil, fmt.Errorf("%s has no comment of its own, which is its text in the documentation", c.name)
		}
	}
	return all, nil
}

func eachConstant(all []source, do func(*ast.File, *ast.ValueSpec)) {
	for _, s := range all {
		for _, decl := range s.file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok && len(value.Names) == 1 && len(value.Values) == 1 {
					if !group.Lparen.IsValid() {
						value.Doc = group.Doc
					}
					do(s.file, value)
				}
			}
		}
	}
}

func constantOf(spec *ast.ValueSpec) constant {
	doc := spec.Doc.Text()
	if doc == "" {
		doc = spec.Comment.Text()
	}
	c := constant{name: spec.Names[0].Name, doc: strings.Join(strings.Fields(doc), " ")}
	c.value, _ = text(spec.Values[0])
	// A Go doc comment begins with the name, which the table shows in another column.
	for _, begin := range []string{c.name + ": ", c.name + " means that ", c.name + " says that ", c.name + " is ", c.name + " is set to "} {
		if rest, ok := strings.CutPrefix(c.doc, begin); ok {
			c.doc = strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	if rest, ok := strings.CutPrefix(c.doc, c.name+" "); ok { // such as "HeaderName names the ..."
		c.doc = strings.ToUpper(rest[:1]) + rest[1:]
	}
	c.doc = strings.NewReplacer("[", "`", "]", "`").Replace(c.doc)
	return c
}

// text returns the value of a string literal, or of a sum of string literals.
func text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, ok := text(e.X)
		right, also := text(e.Y)
		return left + right, ok && also
	}
	return "", false
}
