package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/oncegate/oncegate/expression"
)

func (r *reader) routes(cfg *Config, n ast.Node, where string) []*Route {
	var out []*Route
	seen := map[string]int{}
	for i, item := range r.list(n, where) {
		route := r.route(cfg, item, fmt.Sprintf("%s[%d]", where, i))
		if first, twice := seen[route.Name]; twice && route.Name != "" {
			r.at(item, "%s[%d]: duplicate name %q, first on line %d", where, i, route.Name, first)
		}
		seen[route.Name] = lineOf(item)
		out = append(out, route)
	}
	claims := make([]nameClaim, len(out))
	for i, route := range out {
		claims[i] = nameClaim{where: where + "." + route.Name, name: route.Name, previous: route.Previous}
	}
	r.checkPrevious(claims)
	return out
}

func (r *reader) route(cfg *Config, n ast.Node, where string) *Route {
	route := &Route{Types: []string{"*"}}
	for _, node := range r.peek(n, "name") {
		parsed(r, node, where+".name", &route.Name, checkedName)
		if route.Name != "" {
			where = strings.TrimSuffix(where, where[strings.LastIndexByte(where, '['):]) + "." + route.Name
		}
	}
	var targetAt, mapAt, mailAt ast.Node
	var target string
	r.object(n, where, map[string]func(field){
		"name":           func(field) {},
		"previous_names": func(f field) { route.Previous = r.previousNames(f, where) },
		"types":          func(f field) { route.Types = r.globs(f.value, where+".types") },
		"target":         func(f field) { targetAt = f.value; parsed(r, f.value, where+".target", &target, verbatim) },
		"order":          func(f field) { route.Order = r.order(f, where) },
		"when": func(f field) {
			r.expression(f.value, where+".when", expression.Condition, func(p *expression.Program) { route.When = p })
		},
		"key":               func(f field) { route.Key = r.effectKey(f, where) },
		"map":               func(f field) { mapAt = f.key; route.Map = r.mapping(f.value, where+".map") },
		"assume_idempotent": r.boolean(&route.AssumeIdempotent, where),
		"mail":              func(f field) { mailAt = f.key; route.Mail = r.routeMail(f, where) },
		"retry":             func(f field) { r.retry(&route.Retry, f.value, where+".retry") },
		"timeout":           r.duration(&route.Timeout, where),
	})
	if route.Name == "" && len(r.peek(n, "name")) == 0 {
		r.at(n, "%s: name is missing", where)
	}
	if targetAt == nil && !r.handlers {
		r.at(n, "%s: target is missing", where)
		return route
	}
	names := make([]string, 0, len(cfg.Targets))
	for _, t := range cfg.Targets {
		if t.Kind == KindHandler {
			continue
		}
		names = append(names, t.Name)
		if t.Name == target {
			route.Target = t
		}
	}
	if targetAt == nil && route.Name != "" {
		route.Target = r.handler(cfg, route, n, where)
	}
	if route.Target == nil {
		if target != "" {
			r.at(targetAt, "%s: unknown target %q; known are %s", where, visible(target), listed(names))
		}
		return route
	}
	if mapAt != nil && route.Target.Kind != KindForward && route.Target.Kind != KindDev {
		r.at(mapAt, "%s.map: only forward sends a body", where)
	}
	switch isMail := route.Target.Kind == KindMail; {
	case isMail && mailAt == nil:
		r.at(n, "%s: mail is missing: to, and template or subject and text or html", where)
	case !isMail && mailAt != nil:
		r.at(mailAt, "%s.mail: target %s is not of kind mail", where, route.Target.Name)
	case isMail:
		r.routeTemplates(route, mailAt, where)
	}
	inherit(&route.Retry, route.Target.Retry)
	if route.Timeout == 0 {
		route.Timeout = route.Target.Timeout
	}
	return route
}

func inherit(into *Retry, from Retry) {
	if into.Attempts == 0 {
		into.Attempts = from.Attempts
	}
	if into.Base == 0 {
		into.Base = from.Base
	}
	if into.Max == 0 {
		into.Max = from.Max
	}
	if into.Deadline == 0 {
		into.Deadline = from.Deadline
	}
}

// globs reads the event types of a route.
func (r *reader) globs(n ast.Node, where string) []string {
	var out []string
	items := r.list(n, where)
	if len(items) == 0 {
		if _, isList := n.(*ast.SequenceNode); isList {
			r.at(n, "%s: the list is empty; leave it out to take every type", where)
		}
	}
	for i, item := range items {
		var pattern string
		parsed(r, item, fmt.Sprintf("%s[%d]", where, i), &pattern, glob)
		out = append(out, pattern)
	}
	return out
}
