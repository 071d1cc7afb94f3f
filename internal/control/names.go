package control

import (
	"context"
	"slices"

	"github.com/oncegate/oncegate/inbox/pause"
)

// Names are the names that a filter can select, sorted, at most 500 of each kind.
type Names struct {
	// Sources are the names of sources. Targets are the names of targets.
	Sources []string `json:"sources"`
	Targets []string `json:"targets"`

	// Routes are the routes, as <source>/<route>.
	Routes []string `json:"routes"`

	// Types are the types of the newest 2,000 events. Others may exist.
	Types []string `json:"types"`

	// Incomplete names the members that have more names than are shown.
	Incomplete []string `json:"incomplete"`
}

// maxNames is how many names of a kind are shown.
const maxNames = 500

// ShowNames shows the names that a filter can select.
var ShowNames = Operation[NoRequest, *Names]{
	ID: "show_names", Method: "GET", Path: "/names", Scope: ReadMetadata,
	Summary: "Show the names of sources, routes and targets, and the types of the newest events, to choose from. An access that is limited to a tenant sees its own.",
	Do: func(ctx context.Context, s *Service, access Access, _ NoRequest) (*Names, error) {
		types, err := s.lister.ForTenant(access.Tenant).RecentTypes(ctx)
		if err != nil {
			return nil, err
		}
		out := &Names{Incomplete: []string{}}
		out.Types = out.atMost("types", types)
		for _, one := range []struct {
			kind   pause.Kind
			member string
			to     *[]string
		}{{pause.Source, "sources", &out.Sources}, {pause.Route, "routes", &out.Routes}, {pause.Target, "targets", &out.Targets}} {
			names, err := s.namesFor(ctx, one.kind, access)
			if err != nil {
				return nil, err
			}
			*one.to = out.atMost(one.member, names)
		}
		return out, nil
	},
}

// namesFor returns the names of a kind that the access may see: all of them, or those that the database says belong to its
// tenant.
func (s *Service) namesFor(ctx context.Context, kind pause.Kind, access Access) ([]string, error) {
	if access.Tenant == "" {
		return s.knownNames(ctx, kind)
	}
	return pause.Known(ctx, s.cfg.Lists, kind, access.Tenant)
}

// atMost returns the first names of a member, and notes if there are more.
func (n *Names) atMost(member string, names []string) []string {
	if len(names) > maxNames {
		n.Incomplete = append(n.Incomplete, member)
		names = slices.Clip(names[:maxNames])
	}
	if names == nil {
		names = []string{}
	}
	return names
}
