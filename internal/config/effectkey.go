package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox"
)

// EffectKey says which effects of a route are one.
type EffectKey struct {
	// Recipe makes the key; nil is the event's own key.
	Recipe *expression.Recipe

	// Keep is how long after an event was received another one with the same key is
	// its duplicate. 0 is the default of 30 days.
	Keep time.Duration

	// Within, if set, makes one effect only of events received within it of each
	// other.
	Within time.Duration

	line int
}

// effectKey reads a route's key: a list of fields, or an object with them.
func (r *reader) effectKey(f field, where string) *EffectKey {
	where += ".key"
	k := &EffectKey{line: lineOf(f.key)}
	recipe := &expression.Recipe{Version: 1}
	if _, short := f.value.(*ast.SequenceNode); short {
		r.keyFields(recipe, f.value, where)
	} else {
		r.object(f.value, where, map[string]func(field){
			"fields":  func(f field) { r.keyFields(recipe, f.value, where+".fields") },
			"version": r.count(&recipe.Version, where, 1),
			"within":  r.duration(&k.Within, where),
			"keep":    r.duration(&k.Keep, where),
			"exclude": func(f field) {
				for i, item := range r.list(f.value, where+".exclude") {
					var name string
					parsed(r, item, fmt.Sprintf("%s.exclude[%d]", where, i), &name, verbatim)
					recipe.Exclude = append(recipe.Exclude, name)
				}
			},
		})
	}
	keep := k.Keep
	if keep == 0 {
		keep = inbox.DefaultKeyKeep
	}
	switch {
	case k.Within > keep:
		r.line(k.line, "%s: keep %s is shorter than within %s", where, FormatDuration(keep), FormatDuration(k.Within))
	case len(recipe.Fields) == 0 && (k.Within > 0 || len(recipe.Exclude) > 0 || recipe.Version > 1):
		r.line(k.line, "%s: within, exclude and version need fields", where)
	}
	if len(recipe.Fields) > 0 {
		k.Recipe = recipe
	}
	return k
}

func (r *reader) keyFields(recipe *expression.Recipe, n ast.Node, where string) {
	items := r.list(n, where)
	if _, isList := n.(*ast.SequenceNode); isList && len(items) == 0 {
		r.at(n, "%s: the list is empty", where)
	}
	for i, item := range items {
		r.expression(item, fmt.Sprintf("%s[%d]", where, i), expression.Value, func(p *expression.Program) { recipe.Fields = append(recipe.Fields, p) })
	}
}

// expression reads a CEL expression. The bare word type is the event's type: in
// CEL itself it is the name of a function.
func (r *reader) expression(n ast.Node, where string, want expression.Want, use func(*expression.Program)) {
	text, ok := r.text(n, where)
	if !ok {
		return
	}
	if strings.TrimSpace(text) == "type" {
		text = "event.type"
	}
	p, err := expression.Compile(text, want)
	if err != nil {
		r.at(n, "%s: \"%s\": %v", where, visible(text), err)
		return
	}
	use(p)
}

// mapping reads an expression, or an object whose members are mappings.
func (r *reader) mapping(n ast.Node, where string) *expression.Mapping {
	if _, object := n.(ast.MapNode); !object {
		var m *expression.Mapping
		r.expression(n, where, expression.Value, func(p *expression.Program) { m = expression.NewMapping(p) })
		return m
	}
	members := map[string]*expression.Mapping{}
	for _, f := range r.fields(n, where) {
		if m := r.mapping(f.value, where+"."+visible(f.name)); m != nil {
			members[f.name] = m
		}
	}
	return expression.NewObject(members)
}

// checkKeys compares the windows of a source's routes with what its provider
// and the targets promise.
func (r *reader) checkKeys(s *Source) {
	if s.Provider == nil {
		return
	}
	windows := s.Provider.Spec().Windows
	resend := time.Duration(max(windows.Retry.For, windows.Resend.For))
	for _, route := range s.Routes {
		if route.Key == nil || route.Target == nil {
			continue
		}
		where := "sources." + s.Name + ".routes." + route.Name + ".key"
		keep := route.Key.Keep
		if keep == 0 {
			keep = inbox.DefaultKeyKeep
		}
		if route.Key.Recipe == nil && keep < resend {
			r.line(route.Key.line, "%s: keep %s is shorter than the %s in which %s may deliver an event again",
				where, FormatDuration(keep), FormatDuration(resend), s.Provider.Name())
		}
		if window := route.Target.KeyWindow; route.Target.Idempotent && window > 0 && keep > window && !route.AssumeIdempotent {
			r.line(route.Key.line, "%s: keep %s is longer than the %s for which target %s remembers a key; shorten it, or say assume_idempotent: true",
				where, FormatDuration(keep), FormatDuration(window), route.Target.Name)
		}
	}
}

func (k *EffectKey) append(to yaml.MapSlice) yaml.MapSlice {
	if k == nil {
		return to
	}
	var out yaml.MapSlice
	if k.Recipe != nil {
		fields := make([]string, len(k.Recipe.Fields))
		for i, f := range k.Recipe.Fields {
			fields[i] = f.String()
		}
		out = append(out, item("fields", fields), item("version", k.Recipe.Version))
		if len(k.Recipe.Exclude) > 0 {
			out = append(out, item("exclude", k.Recipe.Exclude))
		}
	}
	out = duration(out, "within", k.Within)
	out = duration(out, "keep", k.Keep)
	return append(to, item("key", out))
}

// Rate is how many attempts may begin in a time. The zero value is no limit.
type Rate struct {
	N   int
	Per time.Duration
}

// String gives the rate as it is configured.
func (r Rate) String() string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[r.Per]
	return fmt.Sprintf("%d/%s", r.N, unit)
}

func rate(s string) (Rate, error) {
	errRate := errors.New("not a rate such as 50/s, 100/m or 1000/h")
	number, unit, ok := strings.Cut(s, "/")
	per, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := wholeNumber(number, 1)
	if !ok || !known || err != nil || n > 1_000_000 {
		return Rate{}, errRate
	}
	return Rate{N: n, Per: per}, nil
}

// Breaker says when attempts at a target stop for a while. A zero field is the
// worker's default.
type Breaker struct {
	// Failures in a row open it; -1 is never.
	Failures int
	// Open is how long no attempt is made then.
	Open time.Duration
}

func (r *reader) breaker(into *Breaker, f field, where string) {
	where += ".breaker"
	if _, object := f.value.(ast.MapNode); !object {
		parsed(r, f.value, where, &into.Failures, func(s string) (int, error) {
			if s == "off" || s == "false" {
				return -1, nil
			}
			return 0, errors.New("want off, or failures and open")
		})
		return
	}
	r.object(f.value, where, map[string]func(field){
		"failures": r.count(&into.Failures, where, 1),
		"open":     r.duration(&into.Open, where),
	})
}

func (b Breaker) append(to yaml.MapSlice) yaml.MapSlice {
	if b.Failures < 0 {
		return append(to, item("breaker", "off"))
	}
	out := duration(number(yaml.MapSlice{}, "failures", int64(b.Failures)), "open", b.Open)
	if len(out) == 0 {
		return to
	}
	return append(to, item("breaker", out))
}
