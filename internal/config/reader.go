package config

import (
	"strings"

	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// reader reads the sections of the file. It adds problems to the report and continues.
type reader struct {
	report   *yamltree.Report
	root     *yamltree.Node
	env      *environment
	cfg      *Config
	catalog  providers.Catalog
	handlers bool // whether a route without a target uses a Go function
	dev      bool // whether targets may be of kind dev
	warnings []string

	// unusable contains the paths of invalid members, such as targets.ledger, so that references to
	// them are not reported as unknown.
	unusable map[string]bool
	// badVariables contains the keys whose environment variable is invalid.
	badVariables map[string]bool

	// takingNothing has what takesNothing returned, by provider and pattern.
	takingNothing map[[2]string]string

	// sourceNames are the names of the sources that have been read.
	sourceNames map[string]bool
	// storing is true while a source of the database is read, and storedSecrets counts its secrets.
	storing       bool
	storedSecrets int
}

// sound reports whether neither the file nor the environment has a problem with a key or a key
// below it. Callers check it before they compare values, because a comparison with an invalid value
// would report a second problem.
func (r *reader) sound(path string) bool {
	for key := range r.badVariables {
		if key == path || strings.HasPrefix(key, path+".") {
			return false
		}
	}
	n := r.root
	for key := range strings.SplitSeq(path, ".") {
		n = n.Member(key)
	}
	return n.Sound()
}

// named reports whether the key of a member is a valid name. If it is not, named reports it and
// marks the member as unusable.
func (r *reader) named(n *yamltree.Node) bool {
	if _, err := checkedName(n.Name()); err != nil {
		r.unusable[n.Path()] = true
		n.FailKey("%v", err)
		return false
	}
	return true
}

// failLines reports each line of a joined error.
func failLines(n *yamltree.Node, err error) {
	if err == nil {
		return
	}
	for _, line := range errorLines(err) {
		n.Fail("%s", line)
	}
}

// expression reads a CEL expression. The bare word type means the event's type, although CEL has a
// function of that name.
func (r *reader) expression(n *yamltree.Node, want expression.Want, use func(*expression.Program)) {
	r.compiled(n, func(text string) (*expression.Program, error) { return expression.Compile(text, want) }, use)
}

// fetchedExpression reads a CEL expression that can also use the answer of the route's fetch.
func (r *reader) fetchedExpression(n *yamltree.Node, want expression.Want, use func(*expression.Program)) {
	r.compiled(n, func(text string) (*expression.Program, error) { return expression.CompileWithFetched(text, want) }, use)
}

// requestExpression reads a CEL expression for a part of a request, which can also use the idempotency
// key and the answer of the route's fetch.
func (r *reader) requestExpression(n *yamltree.Node, use func(*expression.Program)) {
	r.compiled(n, func(text string) (*expression.Program, error) {
		return expression.CompileWithKey(text, expression.Value)
	}, use)
}

func (r *reader) compiled(n *yamltree.Node, compile func(string) (*expression.Program, error), use func(*expression.Program)) {
	var program *expression.Program
	if yamltree.Read(n, &program, func(text string) (*expression.Program, error) {
		if strings.TrimSpace(text) == "type" {
			text = "event.type"
		}
		return compile(text)
	}) {
		use(program)
	}
}

// resolved returns the value of a node, or the value of the reference if the node is env:NAME or
// file:PATH.
func (r *reader) resolved(n *yamltree.Node) (string, bool) {
	text, ok := n.Text()
	if !ok || !isReference(text) {
		return text, ok
	}
	if r.storing {
		n.Fail("%s", storedReference)
		return "", false
	}
	value, err := r.env.resolve(text)
	if err != nil {
		n.Fail("%v", err)
	}
	return value, err == nil
}

func isReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

// visible shortens a text to one line for a message and removes credentials from addresses in it.
func visible(s string) string {
	quoted := (&yamltree.Report{Redact: RedactURLs}).Quote(s)
	return quoted[1 : len(quoted)-1]
}
