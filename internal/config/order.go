package config

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// Order says in which order the effects of a route happen. The zero Order is
// none.
type Order struct {
	sequence.Policy

	// Key names an event's sequence, Number its place in it; nil takes the
	// provider's.
	Key, Number *expression.Program

	line int
}

// orderModes says in which modes each key has a meaning; mode itself is missing.
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
func (r *reader) order(f field, where string) Order {
	where += ".order"
	o := Order{line: lineOf(f.key)}
	var given []field
	reads := map[string]func(field){
		"mode": word(r, &o.Mode, where, sequence.None, sequence.Latest, sequence.Contiguous, sequence.Arrival),
		"key": func(f field) {
			r.expression(f.value, where+".key", expression.Name, func(p *expression.Program) { o.Key = p })
		},
		"number": func(f field) {
			r.expression(f.value, where+".number", expression.Number, func(p *expression.Program) { o.Number = p })
		},
		"patience":  r.duration(&o.Patience, where),
		"warn":      r.duration(&o.Warn, where),
		"on_gap":    word(r, &o.OnGap, where, sequence.GapHold, sequence.GapSkip, sequence.GapFail),
		"on_dead":   word(r, &o.OnDead, where, sequence.DeadBlock, sequence.DeadSkip),
		"late":      word(r, &o.Late, where, sequence.LateDrop, sequence.LateApply, sequence.LateDead),
		"no_key":    word(r, &o.NoKey, where, sequence.Apply, sequence.Hold, sequence.Dead),
		"no_number": word(r, &o.NoNumber, where, sequence.Apply, sequence.Hold, sequence.Dead),
		"ties":      word(r, &o.Ties, where, sequence.Apply, sequence.Hold, sequence.Dead),
		"start":     func(f field) { parsed(r, f.value, where+".start", &o.Start, sequenceStart) },
		"settle":    r.duration(&o.Settle, where),
	}
	for name, read := range reads {
		if name != "mode" {
			reads[name] = func(f field) { given = append(given, f); read(f) }
		}
	}
	before := len(r.problems)
	r.object(f.value, where, reads)
	if len(r.problems) > before {
		return o
	}
	if o.Mode == "" {
		r.line(o.line, "%s: mode is missing: none, latest, contiguous or arrival", where)
		return o
	}
	for _, f := range given {
		if modes := orderModes[f.name]; !slices.Contains(modes, o.Mode) {
			r.at(f.key, "%s.%s: has no meaning in mode %s, only in %s", where, f.name, o.Mode, joined(modes))
		}
	}
	r.orderTimes(&o, where)
	return o
}

// orderTimes compares what a gap's times say with each other.
func (r *reader) orderTimes(o *Order, where string) {
	if patience := o.WithDefaults().Patience; o.Warn > patience {
		r.line(o.line, "%s: warn %s is longer than patience %s", where, FormatDuration(o.Warn), FormatDuration(patience))
	}
	if o.Start != "" && o.Settle > 0 {
		r.line(o.line, "%s: start says which number is the first, settle learns it; give one of them", where)
	}
}

// word reads one of a few words.
func word[T ~string](r *reader, into *T, where string, words ...T) func(field) {
	return func(f field) {
		parsed(r, f.value, where+"."+f.name, into, func(s string) (T, error) {
			if !slices.Contains(words, T(s)) {
				return "", fmt.Errorf("unknown; known are %s", joined(words))
			}
			return T(s), nil
		})
	}
}

func joined[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
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

// checkOrders looks for the keys and numbers that routes do not give themselves
// in what the provider publishes.
func (r *reader) checkOrders(s *Source) {
	if s.Provider == nil {
		return
	}
	kind, name := s.Provider.Spec().Sequence.Kind, s.Provider.Name()
	for _, route := range s.Routes {
		o := &route.Order
		if !o.Ordered() {
			continue
		}
		where := "sources." + s.Name + ".routes." + route.Name + ".order"
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
			r.line(o.line, "%s: %s missing: %s publishes no sequence; give an expression such as %s", where, isOrAre(missing), name, strings.Join(such, ", "))
		case !numbered && o.Mode == sequence.Contiguous && kind != "contiguous":
			r.line(o.line, "%s: mode contiguous waits for every number, and %s publishes a %s, which leaves numbers out; use mode latest, or give the number", where, name, kind)
		}
	}
}

func isOrAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, " and ") + " are"
}

// Effective gives the order in the shape of the file, without what was left to
// its default.
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
