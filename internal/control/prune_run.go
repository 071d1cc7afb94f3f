package control

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox/prune"
)

// RunPruneRequest says what one pass may remove. The reason is required with Include.
type RunPruneRequest struct {
	Explained

	// Include names what prune does not remove by default: dead, indeterminate, held, replay.
	Include []prune.Prunable `json:"include,omitempty"`

	// Resume continues where the previous request ended, instead of starting over.
	Resume bool `json:"resume,omitempty"`

	// DryRun counts what would be removed, by class, and removes nothing. For a table with more than 10,000 old rows it
	// says "at least".
	DryRun bool `json:"dry_run,omitempty" flag:"--dry-run count what would go, by class, and remove nothing"`
}

// Pruned is what a pass removed, or would remove.
type Pruned struct {
	DryRun bool `json:"dry_run"`

	// Counts are what a dry run found.
	Counts []prune.Count `json:"counts"`

	// Report is what was removed. It is nil for a dry run. If it is not complete, repeat the request with resume.
	Report *prune.Report `json:"report,omitempty"`
}

// pruneBudget is how long one request prunes.
const pruneBudget = 10 * time.Second

// RunPrune removes what is past its horizon and no longer needed.
var RunPrune = Operation[RunPruneRequest, Pruned]{
	ID: "run_prune", Method: "POST", Path: "/prune", Scope: Admin,
	Summary: "Remove data that is past its horizon and no longer needed, for at most 10 seconds, or count it with dry_run.",
	Why:     "why may undecided effects be removed?", Confirm: "prune",
	Do: func(ctx context.Context, s *Service, access Access, r RunPruneRequest) (out Pruned, err error) {
		if err := access.untenanted("the rows that prune removes"); err != nil {
			return out, err
		}
		budget := pruneBudget
		if s.cfg.Patient {
			budget = 0
		}
		pruner, err := prune.New(prune.Config{
			Pool: s.cfg.Pool, Effects: s.store, Archive: s.cfg.Archive, Keyring: s.cfg.Keyring, Logger: s.cfg.Logger, Budget: budget, Now: s.cfg.Now,
			Progress: func(p prune.Progress) {
				s.cfg.Progress(fmt.Sprintf("pruning %s %3.0f %%", p.Step, p.Done*100), p.Removed)
			},
		})
		if err != nil {
			return out, err
		}
		run := prune.Run{Anew: !r.Resume, Include: r.Include, Actor: access.Actor, Reason: r.Reason}
		if out.DryRun = r.DryRun; r.DryRun {
			out.Counts, err = pruner.DryRun(ctx, run)
			return out, err
		}
		report, err := pruner.Run(ctx, run)
		out.Report = &report
		return out, err
	},
}
