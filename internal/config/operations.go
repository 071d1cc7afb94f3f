package config

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/payloadschema"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// DeclaredOperation is an operation that a source declares.
type DeclaredOperation struct {
	Name string

	// Description describes the operation for callers that read its contract. It may be empty.
	Description string

	// SchemaFile is the file with the payload's JSON Schema, as the configuration names it. Schema
	// is its content. If they are empty and nil, every payload is accepted.
	SchemaFile string
	Schema     *payloadschema.Schema

	// Versions are the accepted contract versions. Nil means that callers need not send one.
	Versions receiver.Versions

	// Key is the recipe of the operation's keys. If it is empty, the source's recipe applies.
	Key []string
	// MinKey is the minimum length, in characters, of a key that the caller chooses.
	MinKey int

	// Volatile lists members that are ignored when two payloads are compared.
	Volatile []string
	// Exact compares the spelling of numbers and strings instead of their value.
	Exact bool

	// Compared compares two payloads. FormerlyCompared lists the comparisons that may have been in
	// use before the operation was declared in this way, because the stored hashes of earlier calls
	// were made with them.
	Compared         *providers.Comparison
	FormerlyCompared []*providers.Comparison

	// Keep is how long the operation's keys and results are kept, if that is longer than the
	// source's tombstones are. Zero means as long as the tombstones.
	Keep time.Duration

	// InFlight is the answer to a repeat of an unfinished call.
	InFlight receiver.InFlight

	// Repeats configures the detection of calls that are repeated under another key. Nil means the
	// source's setting.
	Repeats *Repeats

	node *yamltree.Node
}

// inFlight is the form of the answer to a repeat of an unfinished call. The words are in the order
// of the constants.
var inFlight = func() form[receiver.InFlight] {
	known := []string{"409", "202", "wait"}
	word := oneOf(known...)
	return form[receiver.InFlight]{
		parse: func(s string) (receiver.InFlight, error) {
			_, err := word.parse(s)
			return receiver.InFlight(slices.Index(known, s)), err
		},
		show:   func(how receiver.InFlight) any { return known[how] },
		schema: word.schema,
	}
}()

// declaredOperations reads the operations of a source and restricts its provider to them. Call it
// after the section operation is read, because operations may inherit its recipe.
func (r *reader) declaredOperations(s *Source, n *yamltree.Node) {
	if n == nil {
		return
	}
	if s.Provider != nil && !s.Provider.IsOperation() {
		n.Fail("is valid only with a provider of operations, which %s is not", s.Provider.Name())
		return
	}
	if len(n.Members()) == 0 && n.Sound() {
		n.Fail("is empty; name an operation, such as charge: {}, or leave it out to take any")
	}
	recipes := map[string][]string{}
	for _, member := range n.Members() {
		if err := providers.CheckOperationName(member.Name()); err != nil {
			member.FailKey("%v", err)
			continue
		}
		o := r.declaredOperation(s, member)
		s.Operations = append(s.Operations, o)
		recipes[o.Name] = o.Key
	}
	slices.SortFunc(s.Operations, func(a, b *DeclaredOperation) int { return cmp.Compare(a.Name, b.Name) })
	if s.Provider != nil && n.Sound() {
		if p, err := s.Provider.WithOperations(recipes); err == nil {
			s.Provider = p
		}
	}
}

func (o *DeclaredOperation) keys() []Key {
	return []Key{
		value("description", &o.Description, words(verbatim), "none", "What the operation does, in a sentence. Callers and models read it in their contract (`GET /in/<source>/operations`)."),
		value("schema", &o.SchemaFile, words(verbatim), "none", "The file of a JSON Schema for the payload, relative to the configuration. It may refer to other files, but Oncegate fetches nothing over the network. Formats are checked.").by(func(r *reader, n *yamltree.Node) { r.schema(o, n) }),
		{
			Name: "versions", Default: "none asked for", Text: "Which values of the header `Oncegate-Contract` are accepted: whole numbers (`2`), ranges (`2-4`), `>=2`, `<=3`, or several with commas. A call without the header is then refused.", schema: scalar,
			read: func(_ *reader, n *yamltree.Node) { yamltree.Read(n, &o.Versions, receiver.ParseVersions) },
			show: func() (any, bool) { return o.Versions.String(), o.Versions != nil },
		},
		recipe(&o.Key, "that of `operation`", "The recipe of the operation's keys, as in [Operations](#operations)."),
		value("min_key", &o.MinKey, minKey, "`16`", "How many characters a key of the caller's own must have, or `off`. A shorter key that is recorded already is answered.").starts().shown().hidden(len(o.Key) > 0),
		list("volatile", &o.Volatile, words(verbatim), "none", "Members in which a repeated call may differ: paths such as `note` or `items.*.at`, in which `*` is any member or element."),
		value("compare", &o.Exact, choice("canonical", "exact"), "`canonical`", "How a repeated payload is compared. `canonical`: by value, so that 100, 100.00 and 1e2 are one number and white space around a text does not count. `exact`: by its spelling. Order of members and white space between them never count.").shown(),
		value("keep", &o.Keep, duration, "as long as tombstones", "How long the keys and results are kept at least: the source's tombstones live as long as the longest `keep`."),
		value("in_flight", &o.InFlight, inFlight, "`409`", "How a repeat of a call without a result is answered: `409`, `202` (as the first call), or `wait` (as long as `operation.wait` allows, then 409).").shown(),
		{
			Name: "repeats", Default: "those of `operation`", Text: "The treatment of calls that are repeated under another key, as in [Suspected repeats](#suspected-repeats), or `off`.", schema: anyOf(defined("repeats"), enum("off")),
			read: func(r *reader, n *yamltree.Node) { o.Repeats = r.ownRepeats(n) }, show: func() (any, bool) { return o.Repeats.show() },
		},
	}
}

// printedKeys returns the keys and, because a changed schema is a changed configuration, its digest.
func (o *DeclaredOperation) printedKeys() []Key {
	digest := Key{Name: "schema_digest", show: func() (any, bool) {
		if o.Schema == nil {
			return nil, false
		}
		return o.Schema.Digest(), true
	}}
	return append(o.keys(), digest)
}

func (r *reader) declaredOperation(s *Source, n *yamltree.Node) *DeclaredOperation {
	o := &DeclaredOperation{Name: n.Name(), node: n}
	start(o.keys())
	defer r.compare(s, o)
	if n.IsEmpty() {
		return o
	}
	if old := n.Member("resume"); old != nil {
		old.FailKey("is not a setting any more; remove it: a caller that continues an earlier call names it in the header %s", receiver.HeaderResumes)
	}
	r.fields(n, o.keys())
	if s.Provider == nil {
		return o
	}
	if key := n.Member("key"); key.Sound() && len(o.Key) > 0 {
		if _, err := s.Provider.WithRecipe(o.Key); err != nil {
			failLines(key, err)
		} else if least := n.Member("min_key"); least != nil {
			least.FailKey("does not go with key: a recipe makes the keys")
		}
	}
	return o
}

// compare sets the comparisons of an operation.
func (r *reader) compare(s *Source, o *DeclaredOperation) {
	if s.Provider == nil {
		return
	}
	comparison := func(byMeaning bool, volatile []string) *providers.Comparison {
		c, err := s.Provider.Comparison(byMeaning, volatile)
		if volatile := o.node.Member("volatile"); err != nil && volatile.Sound() {
			failLines(volatile, err)
		}
		return c
	}
	o.Compared = comparison(!o.Exact, o.Volatile)
	o.FormerlyCompared = []*providers.Comparison{comparison(false, nil), comparison(true, nil), comparison(o.Exact, o.Volatile)}
}

// schema reads a schema file. A relative path is relative to the directory of the configuration
// file.
func (r *reader) schema(o *DeclaredOperation, n *yamltree.Node) {
	if !yamltree.Read(n, &o.SchemaFile, verbatim) {
		return
	}
	if strings.Contains(o.SchemaFile, "://") {
		n.Fail("not a file, and Oncegate fetches nothing: keep a copy next to the configuration")
		return
	}
	path := o.SchemaFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(r.report.File), path)
	}
	schema, err := payloadschema.Load(path)
	if err != nil {
		n.Fail("%s: %v", visible(o.SchemaFile), err)
		return
	}
	o.Schema = schema
}

// recipe declares a key with the recipe of keys of calls.
func recipe(at *[]string, fallback, text string) Key {
	return list("key", at, words(verbatim), fallback, text).by(func(_ *reader, n *yamltree.Node) { *at = recipeFields(n) }).alsoAs(oneOrMore(fieldSchema))
}

// recipeFields reads the fields of a recipe: names such as body.step, or mappings that give a field
// a default.
func recipeFields(n *yamltree.Node) []string {
	var out []string
	items := n.Items()
	if n.IsScalar() || len(items) == 0 {
		return yamltree.ReadList(n, verbatim)
	}
	for _, item := range items {
		var field, ifMissing string
		if !item.IsMapping() {
			if yamltree.Read(item, &field, verbatim) {
				out = append(out, field)
			}
			continue
		}
		item.Fields(map[string]func(*yamltree.Node){"field": yamltree.Text(&field), "default": yamltree.Text(&ifMissing)})
		switch {
		case !item.Sound():
		case field == "" || strings.Contains(field, "="):
			item.Fail("field is missing or has its own default; write { field: body.currency, default: EUR }")
		case ifMissing == "":
			out = append(out, field)
		default:
			out = append(out, field+"="+ifMissing)
		}
	}
	return out
}

// minKey is the form of the least length of a key. Zero is off.
var minKey = form[int]{
	parse: func(s string) (int, error) {
		if s == "off" {
			return 0, nil
		}
		n, err := yamltree.ParseInteger(s, 1)
		if err != nil || n > 200 {
			return 0, errors.New("neither a whole number from 1 to 200 nor off")
		}
		return n, nil
	},
	show: func(n int) any {
		if n == 0 {
			return "off"
		}
		return n
	},
	schema: anyOf(integerFrom(1), enum("off")),
}

// checkOperations checks a source's operations and routes against each other.
func (r *reader) checkOperations(s *Source) {
	if len(s.Operations) == 0 {
		return
	}
	names := make([]string, len(s.Operations))
	for i, o := range s.Operations {
		names[i] = o.Name
	}
	for _, route := range s.Routes {
		types := route.node.Member("types")
		for _, pattern := range route.Types {
			if types == nil || !types.Sound() || slices.ContainsFunc(names, func(name string) bool { return matches(pattern, name) }) {
				continue
			}
			types.FailKey("%q is no operation of the source; %sdeclared are %s", pattern, yamltree.DidYouMean(names, pattern), sortedList(names))
		}
		for _, o := range s.Operations {
			if route.Target == nil || !slices.ContainsFunc(route.Types, func(pattern string) bool { return matches(pattern, o.Name) }) {
				continue
			}
			if window := route.Target.KeyWindow; o.Keep > 0 && route.Target.Idempotent && window > 0 && o.Keep > window && !route.AssumeIdempotent {
				o.node.Member("keep").FailKey("%s is longer than the %s for which target %s of route %s remembers a key; shorten it, or say assume_idempotent: true at the route",
					yamltree.FormatDuration(o.Keep), yamltree.FormatDuration(window), route.Target.Name, route.Name)
			}
		}
	}
}

// keepOperations extends the lifetime of the source's tombstones to the lifetime of its
// operations' keys.
func (r *reader) keepOperations(s *Source) {
	for _, o := range s.Operations {
		if least := max(s.Keep.Body, s.Keep.Effects); o.Keep > 0 && o.Keep < least {
			o.node.Member("keep").FailKey("%s is shorter than the %s for which class %s keeps bodies or effects; leave it out, or shorten those",
				yamltree.FormatDuration(o.Keep), yamltree.FormatDuration(least), s.Class)
		}
		s.Keep.Tombstone = max(s.Keep.Tombstone, o.Keep)
	}
}

// matches reports whether a route's pattern includes an event type, which is the name of an
// operation at a source that takes calls.
func matches(pattern, eventType string) bool {
	return (&inbox.Route{Types: []string{pattern}}).Matches(eventType)
}
