package config

import (
	"errors"
	"math/big"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// Order configures the order of a route's effects. The zero Order means no order.
type Order struct {
	sequence.Policy

	// Key computes the name of an event's sequence, and Number the event's place in it. Nil means
	// the provider's.
	Key, Number *expression.Program

	node *yamltree.Node
}

// orderModes lists the modes in which each key is allowed. The key mode itself is not in the map.
var orderModes = map[string][]sequence.Mode{
	"key":       {sequence.Latest, sequence.Contiguous, sequence.Arrival},
	"number":    {sequence.Latest, sequence.Contiguous},
	"patience":  {sequence.Contiguous},
	"warn":      {sequence.Contiguous},
	"on_gap":    {sequence.Contiguous},
	"on_dead":   {sequence.Contiguous, sequence.Arrival},
	"late":      {sequence.Contiguous},
	"no_key":    {sequence.Latest, sequence.Contiguous, sequence.Arrival},
	"no_number": {sequence.Latest, sequence.Contiguous},
	"ties":      {sequence.Latest, sequence.Contiguous},
	"start":     {sequence.Contiguous},
	"settle":    {sequence.Contiguous},
}

// order reads a route's order.
func (r *reader) order(n *yamltree.Node) Order {
	o := Order{node: n}
	n.Fields(map[string]func(*yamltree.Node){
		"mode":      yamltree.Word(&o.Mode, sequence.None, sequence.Latest, sequence.Contiguous, sequence.Arrival),
		"key":       r.program(&o.Key, expression.Name),
		"number":    r.program(&o.Number, expression.Number),
		"patience":  yamltree.Duration(&o.Patience),
		"warn":      yamltree.Duration(&o.Warn),
		"on_gap":    yamltree.Word(&o.OnGap, sequence.GapHold, sequence.GapSkip, sequence.GapFail),
		"on_dead":   yamltree.Word(&o.OnDead, sequence.DeadBlock, sequence.DeadSkip),
		"late":      yamltree.Word(&o.Late, sequence.LateDrop, sequence.LateApply, sequence.LateDead),
		"no_key":    yamltree.Word(&o.NoKey, sequence.Apply, sequence.Hold, sequence.Dead),
		"no_number": yamltree.Word(&o.NoNumber, sequence.Apply, sequence.Hold, sequence.Dead),
		"ties":      yamltree.Word(&o.Ties, sequence.Apply, sequence.Hold, sequence.Dead),
		"start":     yamltree.Value(&o.Start, sequenceStart),
		"settle":    yamltree.Duration(&o.Settle),
	})
	if !n.Sound() {
		return o
	}
	if o.Mode == "" {
		n.FailKey("mode is missing: none, latest, contiguous or arrival")
		return o
	}
	for _, member := range n.Members() {
		if modes := orderModes[member.Name()]; member.Name() != "mode" && !slices.Contains(modes, o.Mode) {
			member.FailKey("has no meaning in mode %s, only in %s", o.Mode, joined(modes))
		}
	}
	r.orderTimes(&o)
	return o
}

// orderTimes checks the times and the start of an order against each other.
func (r *reader) orderTimes(o *Order) {
	if patience := o.WithDefaults().Patience; o.Warn > patience {
		o.node.FailKey("warn %s is longer than patience %s", yamltree.FormatDuration(o.Warn), yamltree.FormatDuration(patience))
	}
	if o.Start != "" && o.Settle > 0 {
		o.node.FailKey("start says which number is the first, settle learns it; give one of them")
	}
}

func joined(modes []sequence.Mode) string {
	out := make([]string, len(modes))
	for i, mode := range modes {
		out[i] = string(mode)
	}
	return strings.Join(out, ", ")
}

func sequenceStart(s string) (string, error) {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok || len(s) > 38 || strings.HasPrefix(s, "+") {
		return "", errors.New("not a whole number of at most 38 digits")
	}
	return n.String(), nil
}

// checkOrders checks that the provider supplies the keys and numbers that routes do not compute
// themselves.
func (r *reader) checkOrders(s *Source) {
	if s.Provider == nil {
		return
	}
	kind, name := s.Provider.Spec().Sequence.Kind, s.Provider.Name()
	for _, route := range s.Routes {
		o := &route.Order
		if !o.Ordered() || !o.node.Sound() {
			continue
		}
		var missing, such []string
		if o.Key == nil && kind == "none" {
			missing, such = append(missing, "key"), append(such, "key: body.order_id")
		}
		numbered := o.Mode == sequence.Arrival || o.Number != nil
		if !numbered && kind == "none" {
			missing, such = append(missing, "number"), append(such, "number: body.version")
		}
		switch {
		case len(missing) > 0:
			o.node.FailKey("%s missing: %s publishes no sequence; give an expression such as %s", isOrAre(missing), name, strings.Join(such, ", "))
		case !numbered && o.Mode == sequence.Contiguous && kind != "contiguous":
			o.node.FailKey("mode contiguous waits for every number, and %s publishes a %s, which leaves numbers out; use mode latest, or give the number", name, kind)
		}
	}
}

func isOrAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, " and ") + " are"
}

// Effective returns the order in the form of the configuration file, without values left at their
// default.
func (o *Order) Effective() yaml.MapSlice {
	mode := o.Mode
	if mode == "" {
		mode = sequence.None
	}
	out := yaml.MapSlice{item("mode", string(mode))}
	if o.Key != nil {
		out = append(out, item("key", o.Key.String()))
	}
	if o.Number != nil {
		out = append(out, item("number", o.Number.String()))
	}
	out = duration(out, "patience", o.Patience)
	out = duration(out, "warn", o.Warn)
	for _, p := range []struct{ name, value string }{
		{"on_gap", string(o.OnGap)}, {"on_dead", string(o.OnDead)}, {"late", string(o.Late)}, {"no_key", string(o.NoKey)},
		{"no_number", string(o.NoNumber)}, {"ties", string(o.Ties)}, {"start", o.Start},
	} {
		if p.value != "" {
			out = append(out, item(p.name, p.value))
		}
	}
	return duration(out, "settle", o.Settle)
}
