package openapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

const module = "github.com/oncegate/oncegate"

// comments has the doc comments of types and of their fields, and the constants of types, read from the source of a
// module.
type comments struct {
	root   string
	known  map[string]bool     // packages that were read
	texts  map[string]string   // by package.Type and package.Type.Field
	values map[string][]string // the texts of the constants of a type, by package.Type
}

func newComments(root string) *comments {
	return &comments{root: root, known: map[string]bool{}, texts: map[string]string{}, values: map[string][]string{}}
}

// read parses the package of a type once.
func (c *comments) read(pkg string) error {
	if c.known[pkg] || !strings.HasPrefix(pkg, module) {
		return nil
	}
	c.known[pkg] = true
	names, err := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(strings.TrimPrefix(pkg, module)), "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("reading the comments of %s: %w", pkg, err)
		}
		for _, declared := range file.Decls {
			if group, ok := declared.(*ast.GenDecl); ok {
				c.readGroup(pkg, group)
			}
		}
	}
	return nil
}

func (c *comments) readGroup(pkg string, group *ast.GenDecl) {
	for _, spec := range group.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			doc := s.Doc
			if doc == nil {
				doc = group.Doc
			}
			c.texts[pkg+"."+s.Name.Name] = doc.Text()
			if fields, ok := s.Type.(*ast.StructType); ok {
				c.readFields(pkg+"."+s.Name.Name, fields)
			}
		case *ast.ValueSpec:
			name, ok := s.Type.(*ast.Ident)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, value := range s.Values {
				if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					key := pkg + "." + name.Name
					c.values[key] = append(c.values[key], strings.Trim(literal.Value, `"`))
				}
			}
		}
	}
}

// readFields stores the comment of each field. A comment above several fields belongs to all of them that it names.
func (c *comments) readFields(owner string, fields *ast.StructType) {
	last := ""
	for _, field := range fields.Fields.List {
		text := field.Doc.Text()
		if text == "" {
			text = field.Comment.Text()
		}
		for _, name := range field.Names {
			switch {
			case text != "":
				last = text
			case !regexp.MustCompile(`\b` + name.Name + `\b`).MatchString(last):
				last = ""
			}
			c.texts[owner+"."+name.Name] = last
		}
	}
}

var (
	link  = regexp.MustCompile(`\[([A-Za-z.]+)\]`)
	space = regexp.MustCompile(`\s+`)
)

// of returns the comment of a type, or of a field of it, in one line, with the JSON names of fields.
func (c *comments) of(t reflect.Type, field string) (string, error) {
	if err := c.read(t.PkgPath()); err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(t.Name(), "[")
	key := t.PkgPath() + "." + name
	if field != "" {
		key += "." + field
	}
	text := link.ReplaceAllString(strings.TrimSpace(space.ReplaceAllString(c.texts[key], " ")), "$1")
	if t.Kind() != reflect.Struct {
		return text, nil
	}
	for f := range t.Fields() {
		written, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if written == "" || written == "-" || len(f.Name) < 2 {
			continue
		}
		text = regexp.MustCompile(`\b`+f.Name+`\b`).ReplaceAllString(text, written)
	}
	return text, nil
}

// constants returns the values that the code declares for a string type.
func (c *comments) constants(t reflect.Type) ([]string, error) {
	err := c.read(t.PkgPath())
	return c.values[t.PkgPath()+"."+t.Name()], err
}
