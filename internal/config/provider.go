package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// customs are the custom providers while they are read.
type customs struct {
	nodes   map[string]*yamltree.Node
	started map[string]bool
}

// customProviders reads the providers the configuration defines, in the shape
// of a catalogue file. They may not take the name of a built-in one. One may
// extend another, wherever in the file that one stands.
func (r *reader) customProviders(cfg *Config, n *yamltree.Node) {
	all := customs{nodes: map[string]*yamltree.Node{}, started: map[string]bool{}}
	var order []string
	for _, member := range n.Members() {
		if !r.named(member) {
			continue
		}
		if cfg.Providers[member.Name()] != nil {
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

// customProvider reads one provider, after the one that it extends. A provider
// with a problem is remembered: who refers to it is not told that it is unknown.
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
			extends.Fail("%q extends this provider in its turn; one of them stands alone or extends one of the catalogue", base)
			return
		case r.unusable[baseSection]:
			r.unusable[section] = true
			extends.Fail("provider %q (line %d) has problems of its own, which are to be mended first", base, of.KeyLine())
			return
		}
	}
	p := providers.ParseNode(name, n, cfg.Providers)
	if p == nil {
		r.unusable[section] = true
		return
	}
	cfg.Providers[name] = p
	cfg.Custom = append(cfg.Custom, name)
	if warning := inherited(p); warning != "" {
		r.warnings = append(r.warnings, warning)
	}
}

// inherited says which answers, tolerances and windows a provider has from the one
// that it extends: they were found out about another sender. Those of one section
// stand together.
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
	return fmt.Sprintf("providers.%s: it has from %s what may not hold of its own sender: write these keys, the same again if they do hold; "+
		"`oncegate providers show %s --resolved` shows where each part is from", p.Name(), strings.Join(said, " and "), p.Name())
}

// visibleList is a list in one line, each value short.
func visibleList(parts []string) string {
	short := make([]string, len(parts))
	for i, part := range parts {
		short[i] = visible(part)
	}
	return strings.Join(short, ", ")
}

// needsSecret reports whether a source of the provider can do without secrets.
func needsSecret(p *providers.Provider) bool { return p.CheckSecrets(nil) != nil }
