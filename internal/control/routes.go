package control

import (
	"context"
	"slices"

	"github.com/oncegate/oncegate/inbox/read"
)

// ListRoutesRequest narrows a list of routes. A zero field does not narrow it.
type ListRoutesRequest struct {
	// Source is the name of a source.
	Source string `json:"source,omitempty"`
}

// ListRoutes lists routes with their backlog.
var ListRoutes = Operation[ListRoutesRequest, read.Page[read.RouteBacklog]]{
	ID: "list_routes", Method: "GET", Path: "/routes", Scope: ReadMetadata,
	Summary: "List every route that a server was ever started with, and how many of its effects are not settled.",
	Do: func(ctx context.Context, s *Service, access Access, r ListRoutesRequest) (page read.Page[read.RouteBacklog], err error) {
		rows, err := s.lister.RouteBacklogs(ctx)
		if err != nil {
			return page, err
		}
		theirs, err := s.sourcesOf(ctx, access.Tenant)
		if err != nil {
			return page, err
		}
		paused, err := s.pauses(ctx, access)
		if err != nil {
			return page, err
		}
		for i := range rows {
			rows[i].Paused = paused.OfRoute(rows[i].Source, rows[i].Route, rows[i].Target)
		}
		return whole(slices.DeleteFunc(rows, func(row read.RouteBacklog) bool {
			return r.Source != "" && row.Source != r.Source || access.Tenant != "" && !theirs[row.Source]
		})), nil
	},
}
