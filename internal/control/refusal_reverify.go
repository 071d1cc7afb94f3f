package control

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/internal/app"
)

// ReverifyRefusalsRequest says which kept refusals are verified again.
type ReverifyRefusalsRequest struct {
	Explained

	// Source is the name of a source; it is required.
	Source string `json:"source" flag:"--source the source; required"`

	// Cause selects one cause. Since selects refusals received since then.
	Cause string    `json:"cause,omitempty" flag:"--cause only this cause, such as mismatch"`
	Since time.Time `json:"since,omitzero" flag:"--since only those received since"`

	// After is the next of the previous answer, to continue where it ended.
	After inbox.ID `json:"after,omitzero"`

	// DryRun says what would be admitted and changes nothing.
	DryRun bool `json:"dry_run,omitempty" flag:"--dry-run say what would be admitted, and do nothing"`
}

// ReverifiedRefusals counts the results of the refusals.
type ReverifiedRefusals struct {
	DryRun bool `json:"dry_run"`
	refusal.ReverifyReport
}

// reverifyStep is the largest number of refusals that one request verifies.
const reverifyStep = 500

// ReverifyRefusals verifies kept refusals with today's secrets, and admits those that verify.
var ReverifyRefusals = Operation[ReverifyRefusalsRequest, ReverifiedRefusals]{
	ID: "reverify_refusals", Method: "POST", Path: "/refusals/reverify", Scope: Operate,
	Summary: "Verify the kept refusals of a source with today's secrets, some at a time, and admit those that verify.",
	Why:     "why did they not verify? (--dry-run needs none.)",
	Do: func(ctx context.Context, s *Service, access Access, r ReverifyRefusalsRequest) (out ReverifiedRefusals, err error) {
		out.DryRun = r.DryRun
		if r.Source == "" {
			return out, invalid("source is missing")
		}
		if !r.DryRun {
			if err := inbox.CheckExplanation(access.Actor, r.Reason); err != nil {
				return out, err
			}
		}
		if err := s.ownsSource(ctx, access, r.Source); err != nil {
			return out, err
		}
		settings, err := s.settings()
		if err != nil {
			return out, err
		}
		most := reverifyStep
		if r.DryRun {
			most = 0 // an event that is in several refusals is counted once
		}
		out.ReverifyReport, err = app.Reverify(ctx, app.ReverifyConfig{
			Settings: settings, Logger: s.cfg.Logger, Source: r.Source, Cause: r.Cause, Since: r.Since, After: r.After, Most: most,
			DryRun: r.DryRun, Actor: access.Actor, Reason: r.Reason, Now: s.cfg.Now,
			Progress: func(so refusal.ReverifyReport) { s.cfg.Progress("verifying", int64(so.Examined)) },
		})
		return out, err
	},
}
