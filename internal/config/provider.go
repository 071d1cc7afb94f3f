package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// customs tracks the custom providers while they are read.
type customs struct {
	nodes   map[string]*yamltree.Node
	started map[string]bool
}

// customProviders reads the providers that the configuration defines, in the form of a catalog
// file. They cannot have the name of a built-in provider. One may extend another, in any order.
func (r *reader) customProviders(n *yamltree.Node) {
	cfg := r.cfg
	all := customs{nodes: map[string]*yamltree.Node{}, started: map[string]bool{}}
	var order []string
	for _, member := range n.Members() {
		if !r.named(member) {
			continue
		}
		if r.catalog.Provider(member.Name()) != nil {
			member.FailKey("is in the catalogue; choose another name")
			continue
		}
		all.nodes[member.Name()] = member
		order = append(order, member.Name())
	}
	for _, name := range order {
		r.customProvider(cfg, name, &all)
	}
}

// customProvider reads one provider, after the one that it extends. It marks a provider with a
// problem as unusable, so that references to it are not reported as unknown.
func (r *reader) customProvider(cfg *Config, name string, all *customs) {
	if all.started[name] {
		return
	}
	all.started[name] = true
	n := all.nodes[name]
	section := n.Path()
	extends := n.Member("extends")
	base := extends.Value()
	if of, custom := all.nodes[base]; custom {
		baseSection := of.Path()
		circle := all.started[base] && cfg.Providers[base] == nil && !r.unusable[baseSection]
		if !circle {
			r.customProvider(cfg, base, all)
		}
		switch {
		case circle:
			r.unusable[section] = true
			extends.Fail("%q extends this provider in its turn; one of them must extend nothing, or a provider of the catalogue", base)
			return
		case r.unusable[baseSection]:
			r.unusable[section] = true
			extends.Fail("provider %q (line %d) has problems: correct those first", base, of.KeyLine())
			return
		}
	}
	p := providers.ParseNode(name, n, r)
	if p == nil {
		r.unusable[section] = true
		return
	}
	cfg.Providers[name] = p
	if warning := inherited(p); warning != "" {
		r.warnings = append(r.warnings, warning)
	}
}

// inherited returns a warning that lists the answers, tolerances and windows that a provider
// inherits from the one that it extends, because those values were determined for another sender.
// The values are grouped by the provider from which they come. It returns "" if there are none.
func inherited(p *providers.Provider) string {
	parts := p.Inherited()
	if len(parts) == 0 {
		return ""
	}
	from := map[string][]string{}
	for _, part := range parts {
		from[part.From] = append(from[part.From], fmt.Sprintf("%s: %v", part.Path, part.Value))
	}
	var said []string
	for _, base := range slices.Sorted(maps.Keys(from)) {
		said = append(said, base+" ("+visibleList(from[base])+")")
	}
	return fmt.Sprintf("providers.%s: it inherits values from %s that may be wrong for its own sender: write these keys, with the same values if they are right; "+
		"`oncegate providers show %s --resolved` shows where each part is from", p.Name(), strings.Join(said, " and "), p.Name())
}

// visibleList returns a list in one line, with each value shortened.
func visibleList(parts []string) string {
	short := make([]string, len(parts))
	for i, part := range parts {
		short[i] = visible(part)
	}
	return strings.Join(short, ", ")
}

// needsSecret reports whether a source of the provider needs secrets.
func needsSecret(p *providers.Provider) bool { return p.CheckSecrets(nil) != nil }

// printProviders returns the definitions of the custom providers.
func (c *Config) printProviders() (any, bool) {
	out := yaml.MapSlice{}
	for _, name := range c.Providers.Names() {
		out = append(out, yaml.MapItem{Key: name, Value: c.Providers[name].Spec()})
	}
	return out, len(out) > 0
}
