package config

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// PreviousNames are the names that a source or route had before.
type PreviousNames struct {
	// Names are in the order in which they were written. A name that never existed does
	// no harm: installations may share a configuration.
	Names []string

	// None reports that the list was written and is empty: the source or route is new,
	// whatever the database knows.
	None bool

	line int
}

// previousNames reads the key previous_names of the section where.
func (r *reader) previousNames(f field, where string) PreviousNames {
	where += ".previous_names"
	before := len(r.problems)
	out := PreviousNames{line: lineOf(f.key)}
	if _, null := f.value.(*ast.NullNode); null {
		r.at(f.value, "%s: is empty; write [] for a source or route that is new, whatever the database knows", where)
	}
	for i, item := range r.list(f.value, where) {
		at, name := fmt.Sprintf("%s[%d]", where, i), ""
		parsed(r, item, at, &name, checkedName)
		if slices.Contains(out.Names, name) && name != "" {
			r.at(item, "%s: %s is listed twice", at, name)
		}
		out.Names = append(out.Names, name)
	}
	out.None = len(out.Names) == 0 && len(r.problems) == before
	return out
}

// nameClaim is a source or route with the previous names that it claims.
type nameClaim struct {
	where, name string
	previous    PreviousNames
}

// checkPrevious refuses a previous name that two sources, or two routes of one source,
// claim: its rows can belong to one of them only.
func (r *reader) checkPrevious(claims []nameClaim) {
	first := map[string]string{}
	for _, c := range claims {
		for _, name := range c.previous.Names {
			if other, twice := first[name]; twice && name != "" && other != c.where {
				r.line(c.previous.line, "%s.previous_names: %s is a previous name of %s already; only one of them can have been it", c.where, name, other)
			}
			first[name] = c.where
		}
	}
}

func (p PreviousNames) append(to yaml.MapSlice) yaml.MapSlice {
	if len(p.Names) == 0 && !p.None {
		return to
	}
	return append(to, item("previous_names", append([]string{}, p.Names...)))
}
