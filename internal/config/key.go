package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// Key is the declaration of one key of the configuration file. From it come the reading of the
// file, the environment variables, the default, the reference, the JSON Schema and the printed
// configuration. A declaration is bound to the setting that it reads and prints.
type Key struct {
	Name string
	// Default is the value if the key is absent, in Markdown; "required" and "none" are special.
	Default string
	// Text describes the key, in Markdown.
	Text string

	read      func(*reader, *yamltree.Node) // nil if the key is read after the others
	parse     func(string) error            // sets the value of a variable or of the default
	show      func() (value any, set bool)
	always    bool // print the value even if it is not set
	initial   bool // set the default before the file is read
	variables []variable
	keys      func() []Key // of the mapping inside, if environment variables can set any
	schema    schema
}

// variable is an environment variable that overrides a key.
type variable struct{ name, note string }

// from adds environment variables, in order of decreasing precedence. A note may follow the name
// after a comma. The note "as :NAME" says in which form the value of NAME is parsed.
func (k Key) from(variables ...string) Key {
	for _, v := range variables {
		name, note, _ := strings.Cut(v, ", ")
		k.variables = append(k.variables, variable{name, note})
	}
	return k
}

// starts sets the documented default before the file is read. Other defaults belong to the package
// that uses the value.
func (k Key) starts() Key { k.initial = true; return k }

// shown prints the value even if it is not set.
func (k Key) shown() Key { k.always = true; return k }

// later leaves the reading of the key to the caller, because the value depends on other keys.
func (k Key) later() Key { k.read = nil; return k }

// masked prints a text in another form.
func (k Key) masked(show func(string) string) Key {
	plain := k.show
	k.show = func() (any, bool) {
		v, set := plain()
		text, _ := v.(string)
		return show(text), set
	}
	return k
}

// hidden never prints the key if hide is true.
func (k Key) hidden(hide bool) Key {
	if hide {
		k.show = nil
	}
	return k
}

// notEmpty refuses an empty list.
func (k Key) notEmpty(hint string) Key {
	read := k.read
	k.read = func(r *reader, n *yamltree.Node) {
		if read(r, n); len(n.Items()) == 0 && n.Sound() {
			n.Fail("the list is empty%s", hint)
		}
	}
	return k
}

// alsoAs adds another form to the schema.
func (k Key) alsoAs(s schema) Key { k.schema = anyOf(k.schema, s); return k }

// by replaces how the key is read.
func (k Key) by(read func(*reader, *yamltree.Node)) Key { k.read = read; return k }

// form is how the file writes the values of one type.
type form[T any] struct {
	parse  func(string) (T, error)
	show   func(T) any // nil shows the value as it is
	schema schema
}

// value declares a key with a single value. It is printed unless it is zero.
func value[T comparable](name string, at *T, f form[T], fallback, text string) Key {
	return Key{
		Name: name, Default: fallback, Text: text, schema: f.schema, parse: setter(at, f.parse),
		read: func(_ *reader, n *yamltree.Node) { n.Parse(setter(at, f.parse)) },
		show: func() (any, bool) {
			var zero T
			if f.show == nil {
				return *at, *at != zero
			}
			return f.show(*at), *at != zero
		},
	}
}

// setter returns a function that parses a text into *at.
func setter[T any](at *T, parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		parsed, err := parse(text)
		if err == nil {
			*at = parsed
		}
		return err
	}
}

// list declares a key with a list of single values. A variable separates them by commas. The list is
// printed unless it is nil.
func list[T any](name string, at *[]T, f form[T], fallback, text string) Key {
	return Key{
		Name: name, Default: fallback, Text: text, schema: oneOrMore(f.schema),
		read: func(_ *reader, n *yamltree.Node) { *at = yamltree.ReadList(n, f.parse) },
		parse: func(text string) error {
			var all []T
			for part := range strings.SplitSeq(text, ",") {
				one, err := f.parse(strings.TrimSpace(part))
				if err != nil {
					return err
				}
				all = append(all, one)
			}
			*at = all
			return nil
		},
		show: func() (any, bool) { return each(*at, f.show), *at != nil },
	}
}

// each shows the elements of a list.
func each[T any](all []T, show func(T) any) []any {
	out := make([]any, len(all))
	for i, one := range all {
		if out[i] = one; show != nil {
			out[i] = show(one)
		}
	}
	return out
}

// reference declares a key whose value may be a reference, env:NAME or file:PATH. Problems do not
// quote the value, which may be a secret.
func reference(name string, at *string, parse func(string) (string, error), fallback, text string) Key {
	return value(name, at, words(parse), fallback, text).by(func(r *reader, n *yamltree.Node) { r.readReference(n, setter(at, parse)) })
}

func (r *reader) readReference(n *yamltree.Node, parse func(string) error) {
	if text, ok := r.resolved(n); ok {
		if err := parse(text); err != nil {
			n.Fail("%v", err)
		}
	}
}

// program declares a key with a CEL expression.
func program(name string, at **expression.Program, want expression.Want, fallback, text string) Key {
	return Key{
		Name: name, Default: fallback, Text: text, schema: scalar,
		read: func(r *reader, n *yamltree.Node) { r.expression(n, want, func(p *expression.Program) { *at = p }) },
		show: func() (any, bool) {
			if *at == nil {
				return nil, false
			}
			return (*at).String(), true
		},
	}
}

// programAfterFetch is program for an expression that can also use the answer of the route's fetch.
func programAfterFetch(name string, at **expression.Program, want expression.Want, fallback, text string) Key {
	return program(name, at, want, fallback, text).by(func(r *reader, n *yamltree.Node) {
		r.fetchedExpression(n, want, func(p *expression.Program) { *at = p })
	})
}

// programs declares a key with expressions by name.
func programs(name string, at *map[string]*expression.Program, read func(*reader, *yamltree.Node) map[string]*expression.Program, fallback, text string) Key {
	return Key{
		Name: name, Default: fallback, Text: text, schema: mappingOf(scalar),
		read: func(r *reader, n *yamltree.Node) { *at = read(r, n) },
		show: func() (any, bool) {
			return byKey(*at, func(p *expression.Program) any { return p.String() }), len(*at) > 0
		},
	}
}

// secrets declares a key with a list of references to secrets.
func secrets(name string, at *[]Reference, fallback, text string) Key {
	return Key{
		Name: name, Default: fallback, Text: text, schema: oneOrMore(secretSchema),
		read: func(r *reader, n *yamltree.Node) { *at = r.secrets(n, "") },
		show: func() (any, bool) { return each(*at, Reference.printed), len(*at) > 0 },
	}
}

// headers declares a key with headers by name. Their values are never printed.
func headers(name string, at *map[string]string, fallback, text string) Key {
	return Key{
		Name: name, Default: fallback, Text: text, schema: mappingOf(scalar),
		read: func(r *reader, n *yamltree.Node) { *at = r.headers(n) },
		show: func() (any, bool) { return byKey(*at, func(string) any { return "<secret>" }), len(*at) > 0 },
	}
}

// inside declares a key with a mapping that has the keys of a section.
func inside(name, section string, keys func() []Key, fallback, text string) Key {
	return Key{
		Name: name, Default: fallback, Text: text, schema: defined(section), keys: keys,
		read: func(r *reader, n *yamltree.Node) { r.fields(n, keys()) },
		show: func() (any, bool) {
			out := printed(keys())
			return out, len(out) > 0
		},
	}
}

// part is like inside for a mapping that is nil if the key is absent.
func part[T any](name, section string, at **T, read func(*reader, *yamltree.Node) *T, keys func(*T) []Key, fallback, text string) Key {
	return Key{
		Name: name, Default: fallback, Text: text, schema: defined(section),
		read: func(r *reader, n *yamltree.Node) { *at = read(r, n) },
		show: func() (any, bool) {
			if *at == nil {
				return nil, false
			}
			return printed(keys(*at)), true
		},
	}
}

// named declares a key with mappings by name, each with the keys of a section.
func named[T any](name, section string, at *[]*T, nameOf func(*T) string, keys func(*T) []Key, fallback, text string) Key {
	return Key{
		Name: name, Default: fallback, Text: text, schema: mappingOf(defined(section)),
		show: func() (any, bool) {
			out := yaml.MapSlice{}
			for _, one := range *at {
				out = append(out, yaml.MapItem{Key: nameOf(one), Value: printed(keys(one))})
			}
			return out, len(out) > 0
		},
	}
}

// fields reads the mapping n, which has the given keys.
func (r *reader) fields(n *yamltree.Node, keys []Key) {
	known := make(map[string]func(*yamltree.Node), len(keys))
	for _, k := range keys {
		known[k.Name] = func(n *yamltree.Node) {
			if k.read != nil {
				k.read(r, n)
			}
		}
	}
	n.Fields(known)
}

// start sets the defaults of the keys.
func start(keys []Key) {
	for _, k := range keys {
		if text, ok := k.literal(); k.initial && ok {
			if err := k.parse(text); err != nil {
				panic("the default of " + k.Name + ": " + err.Error()) // every configuration has it, so tests find it
			}
		}
		if k.keys != nil {
			start(k.keys())
		}
	}
}

// literal returns the default if the documentation states it as a value.
func (k Key) literal() (string, bool) {
	text, ok := strings.CutPrefix(k.Default, "`")
	text, end := strings.CutSuffix(text, "`")
	return text, ok && end && !strings.Contains(text, "`")
}

// printed returns the values of the keys that are set, in the form of the file.
func printed(keys []Key) yaml.MapSlice {
	out := yaml.MapSlice{}
	for _, k := range keys {
		if k.show == nil {
			continue
		}
		if v, set := k.show(); set || k.always {
			out = append(out, yaml.MapItem{Key: k.Name, Value: v})
		}
	}
	return out
}

// byKey prints a map, sorted by its keys.
func byKey[T any](all map[string]T, show func(T) any) yaml.MapSlice {
	out := yaml.MapSlice{}
	for name, one := range all {
		out = append(out, yaml.MapItem{Key: name, Value: show(one)})
	}
	slices.SortFunc(out, func(a, b yaml.MapItem) int { return strings.Compare(a.Key.(string), b.Key.(string)) }) //nolint:forcetypeassert // set above
	return out
}

// The forms of values that several keys have.
var (
	boolean  = form[bool]{parse: yamltree.ParseBool, schema: enum("true", "false")}
	duration = form[time.Duration]{yamltree.PositiveDuration, durationText, durationSchema}
	size     = form[int64]{parse: yamltree.PositiveSize, schema: sizeSchema}
	network  = form[netip.Prefix]{prefix, func(p netip.Prefix) any { return p.String() }, scalar}
	perTime  = form[Rate]{rate, func(r Rate) any { return r.String() }, exactly(jsonSchema{"type": "string", "pattern": "^[0-9]+/[smh]$"})}
)

func durationText(d time.Duration) any { return yamltree.FormatDuration(d) }

// integer is the form of whole numbers from least.
func integer(least int) form[int] {
	return form[int]{parse: func(s string) (int, error) { return yamltree.ParseInteger(s, least) }, schema: integerFrom(least)}
}

// words is the form of a text that parse checks.
func words(parse func(string) (string, error)) form[string] {
	return form[string]{parse: parse, schema: scalar}
}

// oneOf is the form of a closed set of words.
func oneOf[T ~string](known ...T) form[T] {
	names := make([]string, len(known))
	for i, word := range known {
		names[i] = string(word)
	}
	return form[T]{
		parse:  func(s string) (T, error) { return T(s), yamltree.OneOf(s, names...) },
		show:   func(v T) any { return string(v) },
		schema: enum(names...),
	}
}

// choice is the form of a setting that is one of two words.
func choice(no, yes string) form[bool] {
	word := oneOf(no, yes)
	return form[bool]{
		parse: func(s string) (bool, error) {
			known, err := word.parse(s)
			return known == yes, err
		},
		show: func(v bool) any {
			if v {
				return yes
			}
			return no
		},
		schema: word.schema,
	}
}

// inverse is the form of a setting that is stored negated.
func inverse(f form[bool]) form[bool] {
	return form[bool]{
		parse:  func(s string) (bool, error) { v, err := f.parse(s); return !v, err },
		show:   func(v bool) any { return !v },
		schema: f.schema,
	}
}

// orOff is the form of values that may be off, which is negative. Otherwise is the problem of any
// other value; nil keeps the problem of f.
func orOff[T int | int64 | time.Duration](f form[T], otherwise error) form[T] {
	return form[T]{
		parse: func(s string) (T, error) {
			if s == "off" {
				return -1, nil
			}
			v, err := f.parse(s)
			if err != nil && otherwise != nil {
				err = otherwise
			}
			return v, err
		},
		show: func(v T) any {
			switch {
			case v < 0:
				return "off"
			case f.show == nil:
				return v
			}
			return f.show(v)
		},
		schema: anyOf(f.schema, enum("off")),
	}
}
