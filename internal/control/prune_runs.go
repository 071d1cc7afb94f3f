package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
)

// ListPruneRunsRequest asks for a page of past passes of prune.
type ListPruneRunsRequest struct {
	PageRequest
}

// ListPruneRuns lists what passes of prune have removed.
var ListPruneRuns = Operation[ListPruneRunsRequest, read.Page[prune.PastRun]]{
	ID: "list_prune_runs", Method: "GET", Path: "/prune-runs", Scope: ReadMetadata,
	Summary: "List the passes of prune of the last 30 days that removed something, were told to include something or did not come to their end, newest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListPruneRunsRequest) (page read.Page[prune.PastRun], err error) {
		if err := access.untenanted("what prune removed"); err != nil {
			return page, err
		}
		return idPage(r.PageRequest, func(before inbox.ID, limit int) ([]prune.PastRun, error) {
			return prune.Runs(ctx, s.cfg.Lists, before, limit)
		}, func(run *prune.PastRun) inbox.ID { return run.ID })
	},
}
