package reach_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oncegate/oncegate/internal/tools/reach"
)

const module = "github.com/oncegate/oncegate"

// budgets are what the paths that carry money may reach. A change that makes one of them longer fails here. Shorten the
// path, or raise the budget and say in the commit why the path needs it.
var budgets = []struct {
	what string
	from []string
	most reach.Extent
}{
	{"a wake-up of an effect to its end", []string{"(*" + module + "/jobs.effectWorker).Work"}, reach.Extent{Functions: 436, Files: 113, Packages: 15}},
	{"a settlement", []string{"(*" + module + "/inbox.Effects).Settle"}, reach.Extent{Functions: 141, Files: 37, Packages: 8}},
	{"a delivery up to the gate", arrival("webhooks"), reach.Extent{Functions: 110, Files: 28, Packages: 5}},
	{"a call of an operation up to the gate", arrival("operations"), reach.Extent{Functions: 210, Files: 51, Packages: 6}},
	{"the gate", []string{"(*" + module + "/inbox/gate.Gate).Accept"}, reach.Extent{Functions: 68, Files: 28, Packages: 7}},
	{"loading the configuration", []string{module + "/internal/config.Load"}, reach.Extent{Functions: 707, Files: 147, Packages: 22}},
}

// arrival is the path of a request to a source. The receiver calls the product of the source through an interface.
func arrival(product string) []string {
	const receiver = "(*" + module + "/inbox/receiver."
	return []string{receiver + "Receiver).Handle", receiver + product + ").take", receiver + product + ").reply"}
}

func TestPathsStayWithinTheirBudgets(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	g, err := reach.Load(root, module)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range budgets {
		got, err := g.From(b.from...)
		if err != nil {
			t.Error(err)
			continue
		}
		if !got.Within(b.most) {
			t.Errorf("%s (%s) reaches %s; the budget is %s", b.what, b.from, got, b.most)
		}
	}
}

// The graph follows calls, method values, functions that are passed on and instances of generic functions. It follows
// no calls of interface methods and nothing outside of the module.
func TestFrom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"a.go": `package m

import "strings"

type speaker interface{ speak() }

type dog struct{}

func (dog) speak() { bark() }

func Start(s speaker) { s.speak(); called(); pass(passed); value := dog{}.speak; value(); generic[int](); strings.ToUpper("") }

func called() {}
func pass(f func()) { f() }
func passed() {}
func unused() { called() }
`,
		"b.go":     "package m\n\nfunc generic[T any]() { one() }\nfunc one() { generic[string]() }\nfunc bark() {}\n",
		"cat/c.go": "package cat\n\nfunc (Cat) speak() {}\n\ntype Cat struct{}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := reach.Load(dir, "example.com/m")
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.From("example.com/m.Start")
	if want := (reach.Extent{Functions: 8, Files: 2, Packages: 1}); err != nil || got != want {
		t.Errorf("reaches %s (%v), want %s", got, err, want)
	}
	together, err := g.From("example.com/m.Start", "(example.com/m/cat.Cat).speak", "example.com/m.unused")
	if want := (reach.Extent{Functions: 10, Files: 3, Packages: 2}); err != nil || together != want {
		t.Errorf("they reach %s (%v) together, want %s", together, err, want)
	}
	if _, err := g.From("example.com/m.Stop"); err == nil {
		t.Error("a function that does not exist has an extent")
	}
}
