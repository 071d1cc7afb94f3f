package config

import "slices"

// handler returns the target of a route that names none: the Go function with the route's name.
// Routes of several sources with the same name share the function and its limits.
func (r *reader) handler(cfg *Config, route *Route) *Target {
	if route.Name == "" {
		return nil
	}
	at := slices.IndexFunc(cfg.Targets, func(t *Target) bool { return t.Name == route.Name })
	if at < 0 {
		t := &Target{Name: route.Name, Kind: KindHandler, KeyHeader: "", node: route.node}
		cfg.Targets = append(cfg.Targets, t)
		return t
	}
	if t := cfg.Targets[at]; t.Kind == KindHandler {
		return t
	}
	route.node.Fail("target is missing: a handler would take the name of target %s; write target: %s if that is meant, or rename the route",
		route.Name, route.Name)
	return nil
}
