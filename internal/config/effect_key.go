package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// EffectKey determines which events of a route share one effect.
type EffectKey struct {
	// Recipe computes the key. Nil means the event's own key.
	Recipe *expression.Recipe

	// Keep is how long after an event was received another event with the same key counts as its
	// duplicate. Zero means the default of 30 days.
	Keep time.Duration

	// Within, if set, limits duplicates to events received within this time of each other.
	Within time.Duration

	node *yamltree.Node
}

func (k *EffectKey) keys(recipe *expression.Recipe) []Key {
	return []Key{
		{
			Name: "fields", Default: "required", Text: "Expressions. Effects with equal values are one. `{ field: body.currency, default: EUR }` has a default for an event that lacks the field; `body.version` has the default 1.", schema: oneOrMore(fieldSchema),
			read: func(r *reader, n *yamltree.Node) { r.keyFields(recipe, n) },
			show: func() (any, bool) { return printFields(recipe), len(recipe.Fields) > 0 },
		},
		value("version", &recipe.Version, integer(1), "`1`", "A higher version begins new keys on purpose, after `fields` changed.").hidden(len(recipe.Fields) == 0),
		list("exclude", &recipe.Exclude, words(verbatim), "none", "Names of members that are left out of the values.").hidden(len(recipe.Fields) == 0),
		value("keep", &k.Keep, duration, "`30d`", "How long after the receipt of an event another one with the same key is its duplicate. A later one is carried out again, under the same idempotency key: a target that still remembers the key does nothing."),
		value("within", &k.Within, duration, "none", "Only events received within this time of each other are one."),
	}
}

// effectKey reads a route's key: a list of fields, or a mapping that contains the list.
func (r *reader) effectKey(n *yamltree.Node) *EffectKey {
	k := &EffectKey{node: n}
	recipe := &expression.Recipe{Version: 1}
	if n.IsMapping() || n.IsEmpty() {
		r.fields(n, k.keys(recipe))
	} else {
		r.keyFields(recipe, n)
	}
	keep := cmp.Or(k.Keep, inbox.DefaultKeyKeep)
	switch {
	case !n.Sound():
	case k.Within > keep:
		n.FailKey("keep %s is shorter than within %s", yamltree.FormatDuration(keep), yamltree.FormatDuration(k.Within))
	case len(recipe.Fields) == 0 && (k.Within > 0 || len(recipe.Exclude) > 0 || recipe.Version > 1):
		n.FailKey("within, exclude and version need fields")
	}
	if len(recipe.Fields) > 0 {
		k.Recipe = recipe
	}
	return k
}

func (r *reader) keyFields(recipe *expression.Recipe, n *yamltree.Node) {
	items := n.Items()
	if len(items) == 0 && n.Sound() {
		n.Fail("the list is empty")
	}
	for _, item := range items {
		r.keyField(recipe, item)
	}
}

// keyField reads a field of a key: an expression, or a mapping with a default, { field:
// body.currency, default: EUR }. The field body.version defaults to 1.
func (r *reader) keyField(recipe *expression.Recipe, n *yamltree.Node) {
	field, ifMissing := n, ""
	if n.IsMapping() {
		n.Fields(map[string]func(*yamltree.Node){"field": func(*yamltree.Node) {}, "default": yamltree.Text(&ifMissing)})
		if field = n.Member("field"); field == nil && n.Sound() {
			n.Fail("field is missing; write { field: body.currency, default: EUR }")
		}
	} else if text, ok := n.Text(); ok && strings.TrimSpace(text) == "body.version" {
		ifMissing = "1"
	}
	if field == nil {
		return
	}
	r.fetchedExpression(field, expression.Value, func(p *expression.Program) {
		if ifMissing != "" {
			recipe.Default(len(recipe.Fields), ifMissing)
		}
		recipe.Fields = append(recipe.Fields, p)
	})
}

// mapping declares a key with an expression, or a mapping whose members are mappings or expressions.
func mapping(name string, at **expression.Mapping, read func(*reader, *yamltree.Node, func(*expression.Program)), fallback, text string) Key {
	return Key{
		Name: name, Default: fallback, Text: text, schema: anyOf(scalar, exactly(jsonSchema{"type": "object"})),
		read: func(r *reader, n *yamltree.Node) {
			*at = readMapping(n, func(n *yamltree.Node, use func(*expression.Program)) { read(r, n, use) })
		},
		show: func() (any, bool) {
			if *at == nil {
				return nil, false
			}
			return (*at).Source(), true
		},
	}
}

// readMapping reads a mapping of expressions. read compiles each of them.
func readMapping(n *yamltree.Node, read func(*yamltree.Node, func(*expression.Program))) *expression.Mapping {
	if !n.IsMapping() {
		var m *expression.Mapping
		read(n, func(p *expression.Program) { m = expression.NewMapping(p) })
		return m
	}
	members := map[string]*expression.Mapping{}
	for _, member := range n.Members() {
		if m := readMapping(member, read); m != nil {
			members[member.Name()] = m
		}
	}
	return expression.NewObject(members)
}

// checkKeys compares how long a source's routes keep keys with how long its provider may deliver
// again and how long the targets remember keys.
func (r *reader) checkKeys(s *Source) {
	if s.Provider == nil {
		return
	}
	windows := s.Provider.Spec().Windows
	resend := time.Duration(max(windows.Retry.For, windows.Resend.For))
	for _, route := range s.Routes {
		if route.Key == nil || route.Target == nil || !route.Key.node.Sound() {
			continue
		}
		keep := cmp.Or(route.Key.Keep, inbox.DefaultKeyKeep)
		if route.Key.Recipe == nil && keep < resend {
			route.Key.node.FailKey("keep %s is shorter than the %s in which %s may deliver an event again",
				yamltree.FormatDuration(keep), yamltree.FormatDuration(resend), s.Provider.Name())
		}
		if window := route.Target.KeyWindow; route.Target.Idempotent && window > 0 && keep > window && !route.AssumeIdempotent {
			route.Key.node.FailKey("keep %s is longer than the %s for which target %s remembers a key; shorten it, or say assume_idempotent: true",
				yamltree.FormatDuration(keep), yamltree.FormatDuration(window), route.Target.Name)
		}
	}
}

// declared declares the keys with the recipe that was read.
func (k *EffectKey) declared() []Key {
	return k.keys(cmp.Or(k.Recipe, &expression.Recipe{}))
}

// printFields returns the fields of a recipe in the form of the file.
func printFields(recipe *expression.Recipe) []any {
	fields := make([]any, len(recipe.Fields))
	for i, f := range recipe.Fields {
		fields[i] = f.String()
		if ifMissing, ok := recipe.Defaults[i]; ok && f.String() != "body.version" {
			fields[i] = yaml.MapSlice{{Key: "field", Value: f.String()}, {Key: "default", Value: ifMissing}}
		}
	}
	return fields
}

// Rate limits how many attempts may start per period. The zero value means no limit.
type Rate struct {
	N   int
	Per time.Duration
}

// String returns the rate in the form of the configuration, such as 50/s.
func (r Rate) String() string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[r.Per]
	return fmt.Sprintf("%d/%s", r.N, unit)
}

func rate(s string) (Rate, error) {
	errRate := errors.New("not a rate such as 50/s, 100/m or 1000/h")
	number, unit, ok := strings.Cut(s, "/")
	per, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := yamltree.ParseInteger(number, 1)
	if !ok || !known || err != nil || n > 1_000_000 {
		return Rate{}, errRate
	}
	return Rate{N: n, Per: per}, nil
}

// Breaker configures when attempts at a target stop for a while. A zero field means the worker's
// default.
type Breaker struct {
	// Failures is the number of consecutive failures that open the breaker; -1 means never.
	Failures int
	// Open is how long the breaker then prevents attempts.
	Open time.Duration
}

func (b *Breaker) keys() []Key {
	return []Key{
		value("failures", &b.Failures, integer(1), "`10`", "How many failures in a row stop attempts at the target."),
		value("open", &b.Open, duration, "`30s`", "How long they stop."),
	}
}

func (r *reader) breaker(into *Breaker, n *yamltree.Node) {
	if n.IsMapping() {
		r.fields(n, into.keys())
		return
	}
	yamltree.Read(n, &into.Failures, func(s string) (int, error) {
		if s == "off" || s == "false" {
			return -1, nil
		}
		return 0, errors.New("want off, or failures and open")
	})
}

// key declares the key breaker: a mapping, or off.
func (b *Breaker) key(fallback, text string) Key {
	k := inside("breaker", "breaker", b.keys, fallback, text).by(func(r *reader, n *yamltree.Node) { r.breaker(b, n) }).alsoAs(enum("off", "false"))
	if b.Failures < 0 {
		k.show = func() (any, bool) { return "off", true }
	}
	return k
}
