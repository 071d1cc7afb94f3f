package config

import (
	"cmp"
	"slices"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
)

func (r *reader) routes(cfg *Config, n *yamltree.Node) []*Route {
	var out []*Route
	seen := map[string]int{}
	for _, item := range n.Items() {
		route := r.route(cfg, item)
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

func (r *reader) route(cfg *Config, n *yamltree.Node) *Route {
	route := &Route{Types: []string{"*"}, node: n}
	if name := n.Member("name"); name != nil && yamltree.Read(name, &route.Name, checkedName) {
		n.Rename(route.Name)
	}
	var target string
	n.Fields(map[string]func(*yamltree.Node){
		"name":              func(*yamltree.Node) {},
		"previous_names":    func(n *yamltree.Node) { route.Previous = r.previousNames(n) },
		"types":             func(n *yamltree.Node) { route.Types = r.globs(n) },
		"target":            yamltree.Text(&target),
		"order":             func(n *yamltree.Node) { route.Order = r.order(n) },
		"when":              r.program(&route.When, expression.Condition),
		"key":               func(n *yamltree.Node) { route.Key = r.effectKey(n) },
		"map":               func(n *yamltree.Node) { route.Map = r.mapping(n) },
		"assume_idempotent": yamltree.Bool(&route.AssumeIdempotent),
		"mail":              func(n *yamltree.Node) { route.Mail = r.routeMail(n) },
		"retry":             func(n *yamltree.Node) { r.retry(&route.Retry, n) },
		"timeout":           yamltree.Duration(&route.Timeout),
	})
	if !n.IsMapping() {
		if n.IsEmpty() {
			n.Fail("is empty; a route has a name and a target")
		}
		return route
	}
	if n.Lacks("name") {
		n.Fail("name is missing")
	}
	route.Target = r.routeTarget(cfg, route, target)
	if route.Target == nil {
		return route
	}
	if body := n.Member("map"); body != nil && route.Target.Kind != KindForward && route.Target.Kind != KindDev {
		body.FailKey("only forward sends a body")
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
	inherit(&route.Retry, route.Target.Retry)
	route.Timeout = cmp.Or(route.Timeout, route.Target.Timeout)
	return route
}

// routeTarget returns the target of a route by its name, or creates the target of its handler. It
// returns nil if there is no such target, or if its kind is invalid, because all other checks
// depend on the kind.
func (r *reader) routeTarget(cfg *Config, route *Route, name string) *Target {
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

// globs reads the event types of a route.
func (r *reader) globs(n *yamltree.Node) []string {
	out := yamltree.ReadList(n, glob)
	if len(out) == 0 && n.Sound() {
		n.Fail("the list is empty; leave it out to take every type")
	}
	return out
}
