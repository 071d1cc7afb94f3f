package config

import (
	"strings"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// reader reads the sections of the file. What is wrong is in the report, and the reading
// goes on.
type reader struct {
	report   *yamltree.Report
	root     *yamltree.Node
	env      *environment
	handlers bool // whether a route without a target is carried out by a Go function
	warnings []string

	// unusable are the sections of names that cannot be used, such as targets.ledger: who
	// refers to one is not told that it is unknown.
	unusable map[string]bool
	// badVariables are the keys whose environment variable cannot be used.
	badVariables map[string]bool
}

// sound reports whether nothing is wrong with a key and what is below it, in the file or
// in the environment. A comparison with what could not be read would complain twice.
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

// named reports whether the key of a member is a name, and remembers it if it is none.
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

// expression reads a CEL expression. The bare word type is the event's type: in
// CEL itself it is the name of a function.
func (r *reader) expression(n *yamltree.Node, want expression.Want, use func(*expression.Program)) {
	r.compiled(n, func(text string) (*expression.Program, error) { return expression.Compile(text, want) }, use)
}

// requestExpression reads a CEL expression that makes a part of a request, and so sees the
// idempotency key.
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

// program gives a reader of a CEL expression.
func (r *reader) program(into **expression.Program, want expression.Want) func(*yamltree.Node) {
	return func(n *yamltree.Node) { r.expression(n, want, func(p *expression.Program) { *into = p }) }
}

// resolved gives the value of a node that may be env:NAME or file:PATH instead.
func (r *reader) resolved(n *yamltree.Node) (string, bool) {
	text, ok := n.Text()
	if !ok || !isReference(text) {
		return text, ok
	}
	value, err := r.env.resolve(text)
	if err != nil {
		n.Fail("%v", err)
	}
	return value, err == nil
}

// reference gives a reader of a value that may be env:NAME or file:PATH instead. The value
// may be a secret, and is not quoted.
func (r *reader) reference(into *string, parse func(string) (string, error)) func(*yamltree.Node) {
	return func(n *yamltree.Node) {
		text, ok := r.resolved(n)
		if !ok {
			return
		}
		value, err := parse(text)
		if err != nil {
			n.Fail("%v", err)
			return
		}
		*into = value
	}
}

func isReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

// visible keeps what a message quotes to one short line, without credentials of addresses.
func visible(s string) string {
	quoted := (&yamltree.Report{Redact: RedactURLs}).Quote(s)
	return quoted[1 : len(quoted)-1]
}
