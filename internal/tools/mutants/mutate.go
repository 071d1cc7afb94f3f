package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
)

// swapped lists the replacements of each operator.
var swapped = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND}, token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN}, token.INC: {token.DEC}, token.DEC: {token.INC},
	token.CONTINUE: {token.BREAK}, token.BREAK: {token.CONTINUE},
}

// finder walks a file and collects possible mutations.
type finder struct {
	path   string
	source []byte
	set    *token.FileSet
	out    []mutation
}

// mutate returns the mutations of one file, in source order.
func mutate(path string, source []byte) ([]mutation, error) {
	f := finder{path: path, source: source, set: token.NewFileSet()}
	file, err := parser.ParseFile(f.set, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
			ast.Inspect(function.Body, f.visit)
		}
	}
	return f.out, nil
}

func (f *finder) offset(p token.Pos) int { return f.set.Position(p).Offset }

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

func (f *finder) add(kind string, from, to token.Pos, by string) {
	f.out = append(f.out, mutation{
		File: f.path, Line: f.set.Position(from).Line, Kind: kind,
		start: f.offset(from), end: f.offset(to), by: by, source: f.source,
	})
}

// swap adds the mutations of the operator at p.
func (f *finder) swap(p token.Pos, operator token.Token) {
	for _, other := range swapped[operator] {
		f.add("operator", p, p+token.Pos(len(operator.String())), other.String())
	}
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.IfStmt:
		f.add("condition", n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond)+")")
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.add("negation", n.OpPos, n.X.Pos(), "")
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			f.add("constant", n.Pos(), n.End(), "false")
		case "false":
			f.add("constant", n.Pos(), n.End(), "true")
		}
	case *ast.BasicLit:
		f.literal(n)
	case *ast.IncDecStmt:
		f.swap(n.TokPos, n.Tok)
		f.add("statement", n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		f.swap(n.TokPos, n.Tok)
		if n.Tok != token.DEFINE {
			f.add("statement", n.Pos(), n.End(), "")
		}
	case *ast.ExprStmt:
		f.add("statement", n.Pos(), n.End(), "")
	case *ast.DeferStmt:
		f.add("statement", n.Pos(), n.End(), "")
	case *ast.BranchStmt:
		f.branch(n)
	case *ast.ReturnStmt:
		f.result(n)
	case *ast.CaseClause:
		for i, value := range n.List {
			if len(n.List) > 1 { // remove one case; a clause with only one would have none left
				f.add("case", value.Pos(), value.End(), f.text(n.List[max(1-i, 0)]))
			}
		}
	}
	return true
}

func (f *finder) binary(n *ast.BinaryExpr) {
	f.swap(n.OpPos, n.Op)
	// Replace one side of the condition with a constant.
	switch n.Op {
	case token.LAND:
		f.add("half", n.X.Pos(), n.X.End(), "true")
		f.add("half", n.Y.Pos(), n.Y.End(), "true")
	case token.LOR:
		f.add("half", n.X.Pos(), n.X.End(), "false")
		f.add("half", n.Y.Pos(), n.Y.End(), "false")
	default:
	}
}

// literal increments an integer literal.
func (f *finder) literal(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	if value, err := strconv.ParseInt(n.Value, 0, 63); err == nil {
		f.add("number", n.Pos(), n.End(), strconv.FormatInt(value+1, 10))
	}
}

func (f *finder) branch(n *ast.BranchStmt) {
	if n.Label == nil {
		f.swap(n.Pos(), n.Tok)
	}
	if n.Tok != token.FALLTHROUGH && n.Tok != token.GOTO {
		f.add("statement", n.Pos(), n.End(), "")
	}
}

// result replaces a returned error with nil, or removes a return without results.
func (f *finder) result(n *ast.ReturnStmt) {
	if len(n.Results) == 0 {
		f.add("statement", n.Pos(), n.End(), "")
		return
	}
	last := n.Results[len(n.Results)-1]
	name, ok := last.(*ast.Ident)
	if ok && (name.Name == "err" || len(name.Name) > 3 && name.Name[:3] == "Err" || len(name.Name) > 3 && name.Name[:3] == "err") {
		f.add("error", last.Pos(), last.End(), "nil")
	}
	if call, ok := last.(*ast.CallExpr); ok && len(n.Results) > 1 {
		switch f.text(call.Fun) {
		case "errors.New", "fmt.Errorf", "refuse":
			f.add("error", last.Pos(), last.End(), "nil")
		}
	}
}
