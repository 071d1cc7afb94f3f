package reasons_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/oncegate/oncegate/inbox/reasons"
)

// A word that is not in the set would be stored as "other".
func TestOfKnowsEveryWord(t *testing.T) {
	t.Parallel()
	for _, word := range reasons.All() {
		if got := reasons.Of(word); string(got) != word {
			t.Errorf("Of makes %q of %q", got, word)
		}
	}
}

// The source says which constants there are.
func TestAllListsEveryConstant(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "kind.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for _, value := range spec.Values {
			word, err := strconv.Unquote(value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, word)
		}
		return true
	})
	all := reasons.All()
	slices.Sort(words)
	slices.Sort(all)
	if len(words) == 0 || !slices.Equal(words, all) {
		t.Errorf("the constants are %v, All lists %v", words, all)
	}
}
