package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var analyzer = &analysis.Analyzer{
	Name: "secretcompare",
	Doc:  "refuses comparisons of secrets that are not constant-time",
	Run:  run,
}

// comparing contains functions that compare or search byte by byte and stop early.
var comparing = map[string]bool{
	"bytes.Equal": true, "bytes.EqualFold": true, "bytes.Compare": true, "bytes.Contains": true, "bytes.Index": true, "bytes.HasPrefix": true, "bytes.HasSuffix": true,
	"strings.EqualFold": true, "strings.Compare": true, "strings.Contains": true, "strings.Index": true, "strings.HasPrefix": true, "strings.HasSuffix": true,
	"slices.Equal": true, "slices.Compare": true, "slices.Contains": true, "slices.Index": true, "reflect.DeepEqual": true, "cmp.Compare": true,
}

const excuse = "//secretcompare:ok "

func run(pass *analysis.Pass) (any, error) {
	if strings.HasSuffix(pass.Pkg.Path(), "test") {
		return nil, nil //nolint:nilnil // the analysis has no result
	}
	for _, file := range pass.Files {
		if name := pass.Fset.Position(file.Pos()).Filename; strings.HasSuffix(name, "_test.go") {
			continue // timing attacks on tests do not matter
		}
		excused := map[int]bool{}
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if why, ok := strings.CutPrefix(comment.Text, excuse); ok && strings.TrimSpace(why) != "" {
					excused[pass.Fset.Position(comment.Pos()).Line] = true
				}
			}
		}
		for _, declaration := range file.Decls {
			f := function{info: pass.TypesInfo, holding: map[types.Object]bool{}}
			f.learn(declaration)
			ast.Inspect(declaration, func(n ast.Node) bool {
				if what := f.compares(n); what != "" && !excused[pass.Fset.Position(n.Pos()).Line] {
					pass.Reportf(n.Pos(), "%s compares a secret and ends at the first difference; use crypto/subtle.ConstantTimeCompare on digests of both, or crypto/hmac.Equal", what)
				}
				return true
			})
		}
	}
	return nil, nil //nolint:nilnil // the analysis has no result
}

// compares returns the name of the operator or function if the node compares a secret, and ""
// otherwise.
func (f *function) compares(n ast.Node) string {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if (n.Op == token.EQL || n.Op == token.NEQ || n.Op == token.LSS || n.Op == token.GTR) && f.among(n.X, n.Y) {
			return n.Op.String()
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			return ""
		}
		for _, clause := range n.Body.List {
			if clause, ok := clause.(*ast.CaseClause); ok {
				for _, value := range clause.List {
					if f.among(n.Tag, value) {
						return "switch"
					}
				}
			}
		}
	case *ast.CallExpr:
		if name := calleeOf(f.info, n); comparing[name] && f.among(n.Args...) {
			return name
		}
	}
	return ""
}

// among reports whether one of the operands is a secret and none is a constant or nil. Constants
// are not secret because they are in the program.
func (f *function) among(operands ...ast.Expr) bool {
	found := false
	for _, operand := range operands {
		if f.constant(operand) {
			return false
		}
		found = found || f.secret(operand)
	}
	return found
}

func (f *function) constant(e ast.Expr) bool {
	if known := f.info.Types[e]; known.Value != nil || known.IsNil() {
		return true
	}
	call, ok := ast.Unparen(e).(*ast.CallExpr) // []byte("text")
	return ok && len(call.Args) == 1 && f.info.Types[call.Fun].IsType() && f.constant(call.Args[0])
}
