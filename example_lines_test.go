package oncegate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// A service can embed Oncegate in at most 25 lines, including a handler in the transaction. The
// lines are those of the function embed, from first to last.
func TestEmbeddingTakesAtMost25Lines(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "example_net_http_test.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range file.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok || function.Name.Name != "embed" {
			continue
		}
		if lines := files.Position(function.End()).Line - files.Position(function.Pos()).Line + 1; lines > 25 {
			t.Errorf("the embedding takes %d lines", lines)
		}
		// The function is complete: its only inputs are the database and the mux.
		var called []string
		ast.Inspect(function.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if selected, ok := call.Fun.(*ast.SelectorExpr); ok {
					called = append(called, selected.Sel.Name)
				}
			}
			return true
		})
		if got := strings.Join(called, " "); got != "Open Value Handle Exec Handle Handler Run" {
			t.Errorf("it calls %s", got)
		}
		return
	}
	t.Fatal("there is no function embed")
}
