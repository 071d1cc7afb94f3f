package receiver_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/receiver"
)

// A code that no answer has promises callers what never comes. Each of the table is given by some
// statement, outside the declaration of its constant and the row of the table; those that package
// providers decides on are given there.
func TestEveryCodeIsGiven(t *testing.T) {
	t.Parallel()
	constants := map[string]string{} // by the code
	given := map[string]int{}        // by the constant
	for _, dir := range []string{".", "../../providers"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, entry.Name()), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					for i, name := range n.Names {
						if i >= len(n.Values) {
							continue
						}
						if text, ok := n.Values[i].(*ast.BasicLit); ok && (strings.HasPrefix(name.Name, "Code") || strings.HasPrefix(name.Name, "Problem")) {
							constants[strings.Trim(text.Value, `"`)] = name.Name
							return false
						}
						if call, ok := n.Values[i].(*ast.CallExpr); ok && strings.HasPrefix(name.Name, "Code") && len(call.Args) == 1 {
							return false // Code(providers.ProblemX): counted where it is given
						}
					}
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
						if value, ok := n.Value.(*ast.Ident); ok && strings.HasPrefix(value.Name, "Code") && entry.Name() == "codes.go" {
							return false // a row of the table
						}
					}
				case *ast.Ident:
					given[n.Name]++
				}
				return true
			})
		}
	}
	for _, row := range receiver.Codes() {
		name := constants[string(row.Code)]
		if name == "" {
			t.Errorf("%s has no constant", row.Code)
		} else if given[name] == 0 {
			t.Errorf("no answer has the code %s (%s)", row.Code, name)
		}
	}
	if len(constants) < len(receiver.Codes()) {
		t.Errorf("%d constants were found for %d codes", len(constants), len(receiver.Codes()))
	}
}
