// Package reach measures how much of the module a function reaches through static references: the functions, files and
// packages that a maintainer has to know in order to follow it. Calls of interface methods are not followed, because
// they end at a boundary that a reader need not cross.
package reach

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Graph has the functions of a module and what each of them refers to.
type Graph struct{ functions map[string]function }

type function struct {
	file, pkg string
	refers    []string
}

// Extent is what a function reaches, the function included.
type Extent struct{ Functions, Files, Packages int }

// String is the extent as budgets are written.
func (e Extent) String() string {
	return fmt.Sprintf("%d functions in %d files of %d packages", e.Functions, e.Files, e.Packages)
}

// Within reports whether no part of the extent exceeds the budget.
func (e Extent) Within(budget Extent) bool {
	return e.Functions <= budget.Functions && e.Files <= budget.Files && e.Packages <= budget.Packages
}

// Load reads the packages of the module in dir, without tests.
func Load(dir, module string) (*Graph, error) {
	loaded, err := packages.Load(&packages.Config{
		Dir: dir, Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile,
	}, "./...")
	if err != nil {
		return nil, fmt.Errorf("loading the packages: %w", err)
	}
	g := &Graph{functions: map[string]function{}}
	var errs []error
	for _, p := range loaded {
		for _, e := range p.Errors {
			errs = append(errs, e)
		}
		g.add(p.Fset, p.Syntax, p.TypesInfo, module)
	}
	return g, errors.Join(errs...)
}

// add reads the files of one package.
func (g *Graph) add(fset *token.FileSet, files []*ast.File, info *types.Info, module string) {
	for _, file := range files {
		for _, declared := range file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			object, ok := info.Defs[f.Name].(*types.Func)
			if !ok {
				continue
			}
			node := function{file: fset.Position(f.Pos()).Filename, pkg: object.Pkg().Path()}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if name, ok := n.(*ast.Ident); ok {
					if used, ok := info.Uses[name].(*types.Func); ok && used.Pkg() != nil && strings.HasPrefix(used.Pkg().Path(), module) {
						node.refers = append(node.refers, used.Origin().FullName())
					}
				}
				return true
			})
			g.functions[object.FullName()] = node
		}
	}
}

// From returns what functions reach together. Their names are those of [types.Func.FullName]. Where a path continues in a
// method that it calls through an interface, name that method, too.
func (g *Graph) From(names ...string) (Extent, error) {
	for _, name := range names {
		if _, ok := g.functions[name]; !ok {
			return Extent{}, fmt.Errorf("the module has no function %s", name)
		}
	}
	seen, files, pkgs := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for open := slices.Clone(names); len(open) > 0; {
		next := open[len(open)-1]
		open = open[:len(open)-1]
		f, ok := g.functions[next]
		if !ok || seen[next] {
			continue
		}
		seen[next], files[f.file], pkgs[f.pkg] = true, true, true
		open = append(open, f.refers...)
	}
	return Extent{len(seen), len(files), len(pkgs)}, nil
}
