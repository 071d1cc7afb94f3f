package mail

import (
	"errors"
	"fmt"
	"reflect"
	"text/template/parse"

	"github.com/oncegate/oncegate/jobs/effect"
)

// checkFields reports the unknown fields that a template reads from the data that every message
// has, because a misspelt field would make every event a dead letter. The members of a body are
// only known when there is an event.
func checkFields(tree *parse.Tree, fetched bool) (errs []error) {
	if tree == nil { // it contains only definitions
		return nil
	}
	c := &fieldCheck{fetched: fetched}
	c.list(tree.Root, true)
	return c.errs
}

type fieldCheck struct {
	errs    []error
	fetched bool // the route has a fetch
}

// list checks the nodes. root means that the dot is the data that the template was given.
func (c *fieldCheck) list(l *parse.ListNode, root bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			c.pipe(n.Pipe, root)
		case *parse.TemplateNode:
			c.pipe(n.Pipe, root)
		case *parse.IfNode:
			c.branch(&n.BranchNode, root, root)
		case *parse.WithNode:
			c.branch(&n.BranchNode, root, false)
		case *parse.RangeNode:
			c.branch(&n.BranchNode, root, false)
		}
	}
}

func (c *fieldCheck) branch(b *parse.BranchNode, root, inside bool) {
	c.pipe(b.Pipe, root)
	c.list(b.List, inside)
	c.list(b.ElseList, root)
}

func (c *fieldCheck) pipe(p *parse.PipeNode, root bool) {
	if p == nil {
		return
	}
	for _, command := range p.Cmds {
		for _, arg := range command.Args {
			c.argument(arg, root)
		}
	}
}

func (c *fieldCheck) argument(n parse.Node, root bool) {
	switch n := n.(type) {
	case *parse.FieldNode:
		if root {
			c.field(n.Ident)
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			c.field(n.Ident[1:])
		}
	case *parse.ChainNode:
		c.argument(n.Node, root)
	case *parse.PipeNode:
		c.pipe(n, root)
	}
}

func (c *fieldCheck) field(names []string) {
	switch {
	case names[0] == "Body", names[0] == "To" && len(names) == 1:
	case names[0] == "Fetched" && c.fetched:
	case names[0] == "Fetched":
		c.errs = append(c.errs, errors.New("unknown field .Fetched: the route has no fetch"))
	case names[0] == "Event":
		if len(names) > 1 {
			if _, ok := reflect.TypeFor[effect.Event]().FieldByName(names[1]); !ok {
				c.errs = append(c.errs, fmt.Errorf("unknown field .Event.%s", names[1]))
			}
		}
	default:
		c.errs = append(c.errs, fmt.Errorf("unknown field .%s; known are .Body, .Event and .To", names[0]))
	}
}
