package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// warnTypes warns of event types that the sender does not have, because they take no event. It is
// not an error, because a sender may have added a type after the catalogue was written.
func (r *reader) warnTypes(s *Source) {
	if s.Provider == nil || len(s.Provider.Spec().Types.Known) == 0 {
		return
	}
	type list struct {
		key      string
		patterns []string
	}
	var lists []list
	for _, route := range s.Routes {
		lists = append(lists, list{"routes." + route.Name, route.Types})
	}
	if s.Reconcile != nil {
		lists = append(lists, list{"reconcile", s.Reconcile.Types})
	}
	for _, l := range lists {
		for _, pattern := range l.patterns {
			if why := r.takesNothing(s.Provider, pattern); why != "" {
				r.warnings = append(r.warnings, fmt.Sprintf("sources.%s.%s.types: %s", s.Name, l.key, why))
			}
		}
	}
}

// takesNothing returns why no event of the provider matches a pattern, or "" if one can. A type of the list may itself be a pattern.
// Thousands of sources have the same few patterns, so the reader compares each of them once.
func (r *reader) takesNothing(p *providers.Provider, pattern string) string {
	asked := [2]string{p.Name(), pattern}
	if why, known := r.takingNothing[asked]; known {
		return why
	}
	spec, why := p.Spec(), ""
	if types := spec.Types.Known; !slices.ContainsFunc(types, func(t string) bool { return matches(pattern, t) || matches(t, pattern) }) {
		why = fmt.Sprintf("no event type of %s matches %s, so it takes no event; %schoose from the %d types at %s, or leave it if it is newer than that list",
			spec.Title, visible(pattern), yamltree.DidYouMean(alike(types, pattern), pattern), len(types), spec.Types.Source)
	}
	r.takingNothing[asked] = why
	return why
}

// alike returns what a pattern is compared with to find a suggestion: the types, or for a pattern
// that ends with a wildcard the beginnings of the types, with the same wildcard.
func alike(types []string, pattern string) []string {
	if !strings.HasSuffix(pattern, "*") {
		return types
	}
	var out []string
	for _, known := range types {
		for i, c := range known {
			if strings.ContainsRune("./:_ ", c) {
				out = append(out, known[:i+1]+"*")
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
