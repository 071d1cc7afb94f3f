package config

import (
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// labels reads the labels by which the events of a source are searched.
func (r *reader) labels(n *yamltree.Node) map[string]*expression.Program {
	out := map[string]*expression.Program{}
	for i, member := range n.Members() {
		switch name := member.Name(); {
		case i == inbox.MaxLabels:
			n.FailKey("there are %d labels, and %d is the most", len(n.Members()), inbox.MaxLabels)
		case !inbox.IsLabelName(name):
			member.FailKey("the name of a label has at most 63 lower-case letters, digits and _, and begins with a letter")
		default:
			r.expression(member, expression.Value, func(p *expression.Program) { out[name] = p })
		}
	}
	return out
}
