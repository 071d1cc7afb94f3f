package config

import (
	"cmp"
	"errors"
	"math/big"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/expression"
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

// orderModes lists the modes in which a key is allowed, unless that is every mode.
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

func (o *Order) keys() []Key {
	choices := oneOf(sequence.Apply, sequence.Hold, sequence.Dead)
	return []Key{
		value("mode", &o.Mode, oneOf(sequence.None, sequence.Latest, sequence.Contiguous, sequence.Arrival), "required", "`none`, `latest`, `contiguous` or `arrival`."),
		program("key", &o.Key, expression.Name, "the provider's", "An expression that names the event's stream."),
		program("number", &o.Number, expression.Number, "the provider's", "An expression for the event's place in its stream: a whole number, a decimal text or an RFC 3339 time. Nothing is rounded. Modes `latest` and `contiguous`."),
		value("patience", &o.Patience, duration, "`1h`", "Mode `contiguous`: how long a missing number is waited for."),
		value("warn", &o.Warn, duration, "a tenth of `patience`", "Mode `contiguous`: when a missing number is reported."),
		value("on_gap", &o.OnGap, oneOf(sequence.GapHold, sequence.GapSkip, sequence.GapFail), "`hold`", "Mode `contiguous`, when `patience` has run out: `hold` waits for a person, `skip` gives up the missing numbers, `fail` makes the first waiting effect a dead letter."),
		value("late", &o.Late, oneOf(sequence.LateDrop, sequence.LateApply, sequence.LateDead), "`drop`", "Mode `contiguous`, a number that was given up and arrives after all: `drop` supersedes it, `apply` runs it, `dead` makes it a dead letter."),
		value("on_dead", &o.OnDead, oneOf(sequence.DeadBlock, sequence.DeadSkip), "`block`", "Modes `contiguous` and `arrival`: effects after a dead letter wait (`block`) or continue (`skip`). In `arrival` an unknown outcome counts as well."),
		value("no_key", &o.NoKey, choices, "`dead`", "An event without a key, or whose expression fails: `apply` runs it at once, `hold` waits for a person, `dead` makes it a dead letter."),
		value("no_number", &o.NoNumber, choices, "`dead`", "The same for an event without a number."),
		value("ties", &o.Ties, choices, "`apply` in `latest`, else `dead`", "Two events with one number: `apply`, `hold` or `dead`."),
		value("start", &o.Start, words(sequenceStart), "none", "Mode `contiguous`: the first number of every key."),
		value("settle", &o.Settle, duration, "`10s`", "Mode `contiguous` without `start`: the first number is the smallest one that arrives within this time of the first event."),
	}
}

// order reads a route's order.
func (r *reader) order(n *yamltree.Node) Order {
	o := Order{node: n}
	r.fields(n, o.keys())
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
		laned := s.From != nil && o.Mode == sequence.Arrival // the lane is the key
		if o.Key == nil && kind == "none" && !laned {
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
			o.node.FailKey("mode contiguous waits for every number, and %s publishes a %s, which leaves numbers out; use mode latest, or set number", name, kind)
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
	shown := *o
	shown.Mode = cmp.Or(o.Mode, sequence.None)
	return printed(shown.keys())
}
