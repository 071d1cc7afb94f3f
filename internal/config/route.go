package config

import (
	"cmp"
	"slices"

	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
)

func (r *reader) routes(n *yamltree.Node) []*Route {
	var out []*Route
	seen := map[string]int{}
	for _, item := range n.Items() {
		route := r.route(item)
		if first, twice := seen[route.Name]; twice && route.Name != "" {
			item.Fail("duplicate name %q, first on line %d", route.Name, first)
		}
		seen[route.Name] = item.Line()
		out = append(out, route)
	}
	claims := make([]nameClaim, len(out))
	for i, route := range out {
		claims[i] = nameClaim{where: n.Path() + "." + route.Name, previous: route.Previous}
	}
	r.checkPrevious(claims)
	return out
}

// keys declares the keys of a route.
func (r *Route) keys() []Key {
	target := ""
	if r.Target != nil {
		target = r.Target.Name
	}
	return r.keysWith(&target)
}

// keysWith is keys with a place for the name of the target.
func (r *Route) keysWith(target *string) []Key {
	return []Key{
		value("name", &r.Name, words(checkedName), "required", "The name of the route. It is part of every idempotency key.").later(),
		list("types", &r.Types, words(glob), "every type", "Event types, with `*` as a wildcard. `oncegate config check` warns of one that the sender does not have, if the catalogue lists its types.").notEmpty("; leave it out to take every type"),
		value("target", target, words(verbatim), "required", "The name of the target."),
		programAfterFetch("when", &r.When, expression.Condition, "none", "An [expression](#expressions). If it is false, the effect is skipped."),
		{
			Name: "order", Default: "`mode: none`", Text: "The [order](#order) of the effects.", schema: defined("order"),
			read: func(from *reader, n *yamltree.Node) { r.Order = from.order(n) },
			show: func() (any, bool) { return r.Order.Effective(), true },
		},
		part("fetch", "fetch", &r.Fetch, (*reader).fetch, (*Fetch).keys, "none", "The request that fetches the thing that the event only names, before each effect: see [Fetch](#fetch). Expressions see the answer as `fetched`."),
		part("key", "key", &r.Key, (*reader).effectKey, (*EffectKey).declared, "the event's own", "Which effects are one: see [Effect keys](#effect-keys).").alsoAs(oneOrMore(fieldSchema)),
		mapping("map", &r.Map, (*reader).requestExpression, "the body as received", "For a forward: the JSON that is sent, as an expression or as a mapping of expressions."),
		part("mail", "mail", &r.Mail, (*reader).routeMail, (*Mail).keys, "none", "For a mail target: the [message](#messages)."),
		previousKey(&r.Previous, "none", "Names that the route had before: it keeps their effects, keys and streams."),
		value("assume_idempotent", &r.AssumeIdempotent, boolean, "`false`", "Says that the target recognises a key for longer than its `key_window`."),
		r.Retry.key("the target's", "See [Retry](#retry)."),
		value("timeout", &r.Timeout, duration, "the target's", "The longest attempt."),
	}
}

func (r *Route) printed() any { return printed(r.keys()) }

func (r *reader) route(n *yamltree.Node) *Route {
	route := &Route{Types: []string{"*"}, node: n}
	if name := n.Member("name"); name != nil && yamltree.Read(name, &route.Name, checkedName) {
		n.Rename(route.Name)
	}
	var target string
	r.fields(n, route.keysWith(&target))
	if !n.IsMapping() {
		if n.IsEmpty() {
			n.Fail("is empty; a route has a name and a target")
		}
		return route
	}
	if n.Lacks("name") {
		n.Fail("name is missing")
	}
	route.Target = r.routeTarget(route, target)
	if route.Target == nil {
		return route
	}
	if body := n.Member("map"); body != nil && route.Target.Kind != KindForward && route.Target.Kind != KindDev && route.Target.Kind != KindPublish {
		body.FailKey("only forward and publish send a body")
	}
	switch mail := n.Member("mail"); {
	case mail == nil && route.Target.Kind != KindMail:
	case mail == nil && !n.Lacks("mail"):
	case mail == nil:
		n.Fail("mail is missing: to, and template or subject and text or html")
	case route.Target.Kind != KindMail:
		mail.FailKey("target %s is not of kind mail", route.Target.Name)
	default:
		r.routeTemplates(route, mail)
	}
	checkFetched(route)
	inherit(&route.Retry, route.Target.Retry)
	route.Timeout = cmp.Or(route.Timeout, route.Target.Timeout)
	return route
}

// routeTarget returns the target of a route by its name, or creates the target of its handler. It
// returns nil if there is no such target, or if its kind is invalid, because all other checks
// depend on the kind.
func (r *reader) routeTarget(route *Route, name string) *Target {
	cfg := r.cfg
	n := route.node
	target := n.Member("target")
	switch {
	case target == nil && !n.Lacks("target"):
		return nil
	case target == nil && r.handlers:
		return r.handler(cfg, route)
	case target == nil:
		n.Fail("target is missing")
		return nil
	}
	names := make([]string, 0, len(cfg.Targets))
	for _, t := range cfg.Targets {
		if t.Kind == KindHandler {
			continue
		}
		names = append(names, t.Name)
		if t.Name == name && t.Kind != "" {
			return t
		}
	}
	if target.Sound() && !slices.Contains(names, name) && !r.unusable["targets."+name] {
		target.Fail("unknown target %s; %sknown are %s", r.report.Quote(name), yamltree.DidYouMean(names, name), sortedList(names))
	}
	return nil
}

// inherit copies the fields that a retry policy does not set from another one.
func inherit(into *Retry, from Retry) {
	into.Attempts = cmp.Or(into.Attempts, from.Attempts)
	into.Base = cmp.Or(into.Base, from.Base)
	into.Max = cmp.Or(into.Max, from.Max)
	into.Deadline = cmp.Or(into.Deadline, from.Deadline)
}
