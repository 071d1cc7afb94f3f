package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tree is the text of a repository.
type tree struct {
	lines   map[kind][]line
	pages   map[string][]line // of Markdown, outside fenced code, by file
	unnamed []unnamed
}

// read reads the Go files and the Markdown under root.
func read(root string) (*tree, error) {
	t := &tree{lines: map[kind][]line{}, pages: map[string][]line{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		switch {
		case strings.HasSuffix(name, ".md"):
			return t.markdown(path)
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			return t.goFile(path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// markdown adds the lines of a Markdown file that are outside fenced code.
func (t *tree) markdown(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	t.pages[path] = nil // also if it is empty
	fenced := false
	for i, text := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(strings.TrimSpace(text), "```") {
			fenced = !fenced
		} else if !fenced {
			t.add(markdown, path, i+1, text)
			t.pages[path] = append(t.pages[path], line{file: path, number: i + 1, text: text})
		}
	}
	return nil
}

func (t *tree) add(k kind, path string, number int, text string) {
	if text = strings.TrimSpace(text); text != "" {
		t.lines[k] = append(t.lines[k], line{file: path, number: number, text: text})
	}
}

// goFile adds the comments and the help of a Go file, and its doc comments without a name. It leaves out generated files.
func (t *tree) goFile(path string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if ast.IsGenerated(file) {
		return nil
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			start := files.Position(c.Pos()).Line
			for i, text := range strings.Split(strings.Trim(c.Text, "/*"), "\n") {
				t.add(comments, path, start+i, text)
			}
		}
	}
	if file.Name.Name == "cli" {
		for _, l := range helpOf(file) {
			t.add(help, path, files.Position(l.pos).Line, l.text)
		}
	}
	for _, u := range unnamedIn(file) {
		u.file, u.number = path, files.Position(u.pos).Line
		t.unnamed = append(t.unnamed, u)
	}
	return nil
}

// literal is the text of a string literal.
type literal struct {
	pos  token.Pos
	text string
}

// flagMethod matches the methods that declare a flag. Their last argument is its help.
var flagMethod = regexp.MustCompile(`^[A-Z]\w*VarP?$`)

// helpOf returns the short and long help of the commands of a file, and the help of their flags.
func helpOf(file *ast.File) []literal {
	var out []literal
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && slices.Contains([]string{"Short", "Long"}, key.Name) {
				out = append(out, literalsIn(n.Value)...)
			}
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			if ok && flagMethod.MatchString(method.Sel.Name) && len(n.Args) > 0 {
				out = append(out, literalsIn(n.Args[len(n.Args)-1])...)
			}
		}
		return true
	})
	return out
}

// literalsIn returns the string literals of an expression.
func literalsIn(e ast.Expr) []literal {
	var out []literal
	ast.Inspect(e, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if text, err := strconv.Unquote(l.Value); err == nil {
				out = append(out, literal{pos: l.Pos(), text: text})
			}
		}
		return true
	})
	return out
}
