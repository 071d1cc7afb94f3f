package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// passing lists functions that return a secret argument in another form. A method of an encoding or
// a MAC returns a secret if an argument or the receiver is secret.
var passing = map[string]bool{
	"append": true, "bytes.Clone": true, "bytes.TrimSpace": true, "bytes.Trim": true, "bytes.TrimPrefix": true, "bytes.TrimSuffix": true, "bytes.ToLower": true, "bytes.ToUpper": true,
	"strings.Clone": true, "strings.TrimSpace": true, "strings.Trim": true, "strings.TrimPrefix": true, "strings.TrimSuffix": true, "strings.ToLower": true, "strings.ToUpper": true,
	"strings.Cut": true, "bytes.Cut": true, "strings.CutPrefix": true, "bytes.CutPrefix": true, "slices.Clone": true, "slices.Concat": true,
	"encoding/hex.EncodeToString": true, "encoding/hex.DecodeString": true,
	"(*encoding/base64.Encoding).EncodeToString": true, "(*encoding/base64.Encoding).DecodeString": true,
	"(hash.Hash).Sum": true,
}

// function records which variables of one function hold secrets.
type function struct {
	info    *types.Info
	holding map[types.Object]bool
}

// learn walks a function until it finds no more variables. A variable that is assigned a secret
// anywhere counts as secret in the whole function.
func (f *function) learn(root ast.Node) {
	for before := -1; before != len(f.holding); {
		before = len(f.holding)
		ast.Inspect(root, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				f.parameters(n.Type)
			case *ast.FuncLit:
				f.parameters(n.Type)
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					right := n.Rhs[min(i, len(n.Rhs)-1)]
					// Of several results, the last is an error or a bool and the others may contain
					// the secret.
					if f.secret(right) && textualOrMAC(f.info.TypeOf(left)) {
						f.hold(left)
					}
				}
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if len(n.Values) > 0 && f.secret(n.Values[min(i, len(n.Values)-1)]) {
						f.hold(name)
					}
				}
			case *ast.RangeStmt:
				if n.Value != nil && f.secret(n.X) {
					f.hold(n.Value)
				}
			}
			return true
		})
	}
}

// textualOrMAC excludes the error and the bool that a function returns together with a secret.
func textualOrMAC(t types.Type) bool {
	if t == nil {
		return false
	}
	if textual(t) {
		return true
	}
	switch t := t.Underlying().(type) {
	case *types.Array:
		return textual(types.NewSlice(t.Elem()))
	case *types.Slice:
		return textual(t.Elem())
	case *types.Interface:
		return t.NumMethods() > 1 // a hash.Hash; an error has one method
	case *types.Basic:
		return t.Kind() == types.Byte
	}
	return false
}

func (f *function) parameters(t *ast.FuncType) {
	for _, field := range t.Params.List {
		for _, name := range field.Names {
			if named[name.Name] && f.info.TypeOf(name) != nil && textual(f.info.TypeOf(name)) {
				f.hold(name)
			}
		}
	}
}

func (f *function) hold(e ast.Expr) {
	if name, ok := ast.Unparen(e).(*ast.Ident); ok {
		if object := f.info.ObjectOf(name); object != nil {
			f.holding[object] = true
		}
	}
}

// secret reports whether an expression is a secret, or a part of one.
func (f *function) secret(e ast.Expr) bool {
	if t := f.info.TypeOf(e); t != nil && whole[pathOf(t)] {
		return true
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return f.holding[f.info.ObjectOf(e)]
	case *ast.SelectorExpr:
		if chosen := f.info.Selections[e]; chosen != nil {
			return fields[pathOf(chosen.Recv())+"."+e.Sel.Name] || f.embedded(chosen, e.Sel.Name)
		}
	case *ast.SliceExpr:
		return f.secret(e.X)
	case *ast.IndexExpr:
		return f.secret(e.X)
	case *ast.StarExpr:
		return f.secret(e.X)
	case *ast.UnaryExpr:
		return e.Op == token.AND && f.secret(e.X)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (f.secret(e.X) || f.secret(e.Y))
	case *ast.CallExpr:
		return f.call(e)
	}
	return false
}

// embedded checks the field of an embedded struct under the type that declares it.
func (f *function) embedded(chosen *types.Selection, field string) bool {
	t := chosen.Recv()
	for _, i := range chosen.Index()[:len(chosen.Index())-1] {
		if pointer, ok := t.Underlying().(*types.Pointer); ok {
			t = pointer.Elem()
		}
		structure, ok := t.Underlying().(*types.Struct)
		if !ok {
			return false
		}
		t = structure.Field(i).Type()
	}
	return fields[pathOf(t)+"."+field]
}

func (f *function) call(e *ast.CallExpr) bool {
	if kind, ok := f.info.Types[e.Fun]; ok && kind.IsType() { // string(x), []byte(x)
		return len(e.Args) == 1 && f.secret(e.Args[0])
	}
	name := calleeOf(f.info, e)
	if macs[name] {
		return true
	}
	if !passing[name] {
		return false
	}
	if method, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr); ok && f.secret(method.X) { // mac.Sum
		return true
	}
	return slices.ContainsFunc(e.Args, f.secret)
}

// calleeOf returns the full name of the called function, or the name of a builtin.
func calleeOf(info *types.Info, e *ast.CallExpr) string {
	switch object := typeutil.Callee(info, e).(type) {
	case *types.Func:
		return object.Origin().FullName()
	case *types.Builtin:
		return object.Name()
	}
	return ""
}
