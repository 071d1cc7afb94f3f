package control

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// ListRetentionRequest narrows a list of retentions. A zero field does not narrow it.
type ListRetentionRequest struct {
	TenantFilter
}

// Retention is how long the data of a source is kept. The times are written as in a configuration, such as 30d.
type Retention struct {
	// Source is the name of the source. Class is the name of its retention class.
	Source string `json:"source"`
	Class  string `json:"class"`

	// Body is how long the exact bytes of deliveries are kept.
	Body string `json:"body"`

	// Effects is how long an effect and its attempts are kept once it is settled.
	Effects string `json:"effects"`

	// Refusals is how long refused deliveries are kept, within their own limits.
	Refusals string `json:"refusals"`

	// Tombstone is how long a key refuses duplicates.
	Tombstone string `json:"tombstone"`
}

// ListRetention lists how long the data of each source is kept.
var ListRetention = Operation[ListRetentionRequest, read.Page[Retention]]{
	ID: "list_retention", Method: "GET", Path: "/retention", Scope: ReadMetadata,
	Summary: "List how long what belongs to each source is kept.",
	Do: func(ctx context.Context, s *Service, access Access, r ListRetentionRequest) (page read.Page[Retention], err error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return page, err
		}
		theirs, err := s.sourcesOf(ctx, tenant)
		if err != nil {
			return page, err
		}
		kept, err := prune.Retention(ctx, s.cfg.Pool)
		var rows []Retention
		for _, k := range kept {
			if tenant == "" || theirs[k.Source] {
				rows = append(rows, Retention{
					Source: k.Source, Class: k.Class, Body: yamltree.FormatDuration(k.Keep.Body), Effects: yamltree.FormatDuration(k.Keep.Effects),
					Refusals: yamltree.FormatDuration(k.Keep.Refusals), Tombstone: yamltree.FormatDuration(k.Keep.Tombstone),
				})
			}
		}
		return whole(rows), err
	},
}

// Pruning says whether pruning keeps up.
type Pruning struct {
	// At is when this was read, by the database's clock.
	At time.Time `json:"at"`

	// Backlog is how many events are due and not removed yet, counted up to 100,000. OldestDueSeconds is how long the
	// oldest of them has been due.
	Backlog          int64   `json:"backlog"`
	OldestDueSeconds float64 `json:"oldest_due_seconds"`

	// Incoming and Drained are the numbers of all events that were ever recorded and removed, as PostgreSQL counts
	// them. The difference between two readings is the pace.
	Incoming int64 `json:"incoming"`
	Drained  int64 `json:"drained"`

	// Walks are how far prune has got in each table.
	Walks []prune.Walk `json:"walks"`
}

// ShowPruning shows whether pruning keeps up.
var ShowPruning = Operation[NoRequest, *Pruning]{
	ID: "show_pruning", Method: "GET", Path: "/pruning", Scope: ReadMetadata,
	Summary: "Show how pruning keeps up with what comes in, and how far it has come in each table.",
	Do: func(ctx context.Context, s *Service, access Access, _ NoRequest) (*Pruning, error) {
		if err := access.untenanted("figures of pruning"); err != nil {
			return nil, err
		}
		pruner, err := prune.New(prune.Config{Pool: s.cfg.Pool, Now: s.cfg.Now})
		if err != nil {
			return nil, err
		}
		sample, err := pruner.Sample(ctx)
		if err != nil {
			return nil, err
		}
		walks, err := prune.Walks(ctx, s.cfg.Lists)
		if walks == nil {
			walks = []prune.Walk{}
		}
		return &Pruning{
			At: sample.At, Backlog: sample.Backlog, OldestDueSeconds: sample.Oldest.Seconds(), Incoming: sample.Incoming, Drained: sample.Drained, Walks: walks,
		}, err
	},
}
