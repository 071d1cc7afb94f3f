package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/read"
)

// NoRequest has no parameters.
type NoRequest struct{}

// Node is a process that serves this database.
type Node struct {
	node.Row

	// SilentSeconds is how long ago the process last reported, by the database's clock.
	SilentSeconds float64 `json:"silent_seconds"`
}

// ListNodes lists the processes.
var ListNodes = Operation[NoRequest, read.Page[Node]]{
	ID: "list_nodes", Method: "GET", Path: "/nodes", Scope: ReadMetadata,
	Summary: "List the processes that serve this database, with their versions, roles and sealing keys.",
	Do: func(ctx context.Context, s *Service, access Access, _ NoRequest) (page read.Page[Node], err error) {
		if err := access.untenanted("nodes"); err != nil {
			return page, err
		}
		rows, err := node.List(ctx, s.cfg.Lists)
		out := make([]Node, len(rows))
		for i, row := range rows {
			out[i] = Node{Row: row, SilentSeconds: row.Silent.Seconds()}
		}
		return whole(out), err
	},
}
