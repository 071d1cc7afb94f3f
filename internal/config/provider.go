package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/oncegate/oncegate/providers"
)

// customs are the custom providers while they are read.
type customs struct {
	fields  map[string]field
	started map[string]bool
}

// customProviders reads the providers the configuration defines, in the shape
// of a catalogue file. They may not take the name of a built-in one. One may
// extend another, wherever in the file that one stands.
func (r *reader) customProviders(cfg *Config, n ast.Node, content []byte) {
	all := customs{fields: map[string]field{}, started: map[string]bool{}}
	var order []string
	for _, f := range r.fields(n, "providers") {
		if !r.named(f, "providers") {
			continue
		}
		if cfg.Providers[f.name] != nil {
			r.at(f.key, "providers: %q is in the catalogue; choose another name", f.name)
			continue
		}
		all.fields[f.name] = f
		order = append(order, f.name)
	}
	for _, name := range order {
		r.customProvider(cfg, name, &all, content)
	}
}

// customProvider reads one provider, after the one that it extends. A provider
// with a problem is remembered: who refers to it is not told that it is unknown.
func (r *reader) customProvider(cfg *Config, name string, all *customs, content []byte) {
	if all.started[name] {
		return
	}
	all.started[name] = true
	f := all.fields[name]
	for _, at := range r.peek(f.value, "extends") {
		base := scalar(at)
		of, custom := all.fields[base]
		if !custom {
			continue
		}
		circle := all.started[base] && cfg.Providers[base] == nil && !r.broken[base]
		if !circle {
			r.customProvider(cfg, base, all, content)
		}
		switch {
		case circle:
			r.fail(name)
			r.at(at, "providers.%s: extends: %q extends this provider in its turn; one of them stands alone or extends one of the catalogue", name, base)
			return
		case r.broken[base]:
			r.fail(name)
			r.at(at, "providers.%s: extends: provider %q (line %d) has problems of its own, which are to be mended first", name, base, lineOf(of.key))
			return
		}
	}
	first, text := excerpt(content, f)
	p, err := providers.ParseOver(name, text, cfg.Providers)
	if err != nil {
		r.fail(name)
		for _, text := range lines(err) {
			at, rest := splitLine(text, name)
			line := lineOf(f.key)
			if at > 0 {
				line = first + at - 1
			}
			r.line(line, "providers.%s: %s", name, rest)
		}
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

// fail remembers a custom provider that has problems.
func (r *reader) fail(name string) {
	if r.broken == nil {
		r.broken = map[string]bool{}
	}
	r.broken[name] = true
}

// excerpt gives the lines of the file that hold the value of f, and the number
// of the first, so that the provider's own parser sees what was written and its
// line numbers can be mapped back.
func excerpt(content []byte, f field) (int, []byte) {
	mapping, ok := f.value.(ast.MapNode)
	if !ok || isFlow(f.value) {
		return lineOf(f.value), []byte(f.value.String())
	}
	it := mapping.MapRange()
	if !it.Next() {
		return lineOf(f.value), nil
	}
	position := it.Key().GetToken().Position
	indent := strings.Repeat(" ", position.Column-1)
	var out []string
	for _, line := range strings.Split(string(content), "\n")[position.Line-1:] {
		if rest, inside := strings.CutPrefix(line, indent); inside {
			out = append(out, rest)
			continue
		}
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			break
		}
		out = append(out, "")
	}
	return position.Line, []byte(strings.Join(out, "\n"))
}

func isFlow(n ast.Node) bool {
	mapping, ok := n.(*ast.MappingNode)
	return ok && mapping.IsFlowStyle
}

var lineForm = regexp.MustCompile(`^(?:[^:\s]*:)?(?:line )?(\d+)(?::\d+)?: (.*)$`)

// splitLine takes the line number off a problem that the provider's parser
// reports; 0 if it has none.
func splitLine(problem, name string) (int, string) {
	rest := strings.TrimPrefix(problem, "provider "+name+": ")
	if m := lineForm.FindStringSubmatch(rest); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return n, m[2]
		}
	}
	return 0, rest
}

// needsSecret reports whether a source of the provider can do without secrets.
func needsSecret(p *providers.Provider) bool { return p.CheckSecrets(nil) != nil }
