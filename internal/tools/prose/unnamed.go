package main

import (
	"go/ast"
	"go/token"
	"strings"
	"unicode"
)

// unnamed is a doc comment that does not begin with the name that it documents.
type unnamed struct {
	file   string
	number int
	pos    token.Pos
	name   string
	begins string
}

// unnamedIn returns such doc comments of functions, methods, types, constants and variables. It leaves out the members
// of groups, and string constants and variables, such as statements in SQL, whose comments have reasons only.
func unnamedIn(file *ast.File) []unnamed {
	var out []unnamed
	check := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		text := doc.Text() // without directives
		if text == "" {
			return
		}
		first := firstWord(text)
		for _, name := range names {
			if name.Name == first {
				return
			}
		}
		out = append(out, unnamed{pos: doc.Pos(), name: names[0].Name, begins: strings.Fields(text)[0]})
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			check(decl.Doc, decl.Name)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if doc := spec.Doc; doc != nil {
						check(doc, spec.Name)
					} else if !decl.Lparen.IsValid() {
						check(decl.Doc, spec.Name)
					}
				case *ast.ValueSpec:
					if !decl.Lparen.IsValid() && !isText(spec.Values) {
						check(decl.Doc, spec.Names...)
					}
				}
			}
		}
	}
	return out
}

// firstWord returns the leading letters, digits and underscores of a text.
func firstWord(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end < 0 {
		return text
	}
	return text[:end]
}

// isText reports whether the first value is a string literal, or a concatenation with one.
func isText(values []ast.Expr) bool {
	if len(values) == 0 {
		return false
	}
	switch x := values[0].(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING
	case *ast.BinaryExpr:
		return isText([]ast.Expr{x.X}) || isText([]ast.Expr{x.Y})
	}
	return false
}
