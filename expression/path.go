package expression

import (
	"slices"

	"cel.dev/cel-go/common/ast"
)

// Path gives the members that the expression names one inside the other, if it does nothing but read one of the body, such as
// "order" and "id" of body.order.id. The caller may then find it in the bytes without evaluating the expression.
func (p *Program) Path() (members []string, ok bool) { return p.path, len(p.path) > 0 }

// pathOf is the path of an expression that only reads a member of the body.
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
