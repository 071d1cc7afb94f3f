package expression

import (
	"slices"

	"cel.dev/cel-go/common/ast"
)

// Path returns the member names of an expression that only reads one member of the body, such as
// "order" and "id" for body.order.id. The caller can then find the member in the bytes without
// evaluating the expression.
func (p *Program) Path() (members []string, ok bool) { return p.path, len(p.path) > 0 }

// pathOf returns the path of an expression that only reads a member of the body, and nil for any
// other expression.
func pathOf(e ast.Expr) (path []string) {
	for ; e.Kind() == ast.SelectKind; e = e.AsSelect().Operand() {
		if e.AsSelect().IsTestOnly() {
			return nil
		}
		path = append(path, e.AsSelect().FieldName())
	}
	if e.Kind() != ast.IdentKind || e.AsIdent() != "body" {
		return nil
	}
	slices.Reverse(path)
	return path
}
