package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// warnTypes warns of event types that the sender does not have, because they take no event. It is
// not an error, because a sender may have added a type after the catalogue was written.
func (r *reader) warnTypes(s *Source) {
	if s.Provider == nil {
		return
	}
	for _, route := range s.Routes {
		r.warnPatterns(s, fmt.Sprintf("sources.%s.routes.%s.types", s.Name, route.Name), route.Types)
	}
	if s.Reconcile != nil {
		r.warnPatterns(s, "sources."+s.Name+".reconcile.types", s.Reconcile.Types)
	}
}

func (r *reader) warnPatterns(s *Source, key string, patterns []string) {
	spec := s.Provider.Spec()
	types := spec.Types.Known
	if len(types) == 0 {
		return
	}
	for _, pattern := range patterns {
		// Some senders' users choose the end of a type, so the list has a wildcard there.
		if slices.ContainsFunc(types, func(known string) bool { return matches(pattern, known) || matches(known, pattern) }) {
			continue
		}
		r.warnings = append(r.warnings, fmt.Sprintf("%s: no event type of %s matches %s, so it takes no event; %schoose from the %d types at %s, or leave it if it is newer than that list",
			key, spec.Title, visible(pattern), yamltree.DidYouMean(alike(types, pattern), pattern), len(types), spec.Types.Source))
	}
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
