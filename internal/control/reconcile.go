package control

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/inbox/reconcile"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
)

// ReconcileRequest says which events the sender of a source is asked for.
type ReconcileRequest struct {
	Explained

	// Source is the name of a source; it is required.
	Source string `json:"source"`

	// Since and Until are the period in which the events were created. Without Since it begins as the configuration of
	// the source says, and without Until it ends five minutes ago.
	Since time.Time `json:"since,omitzero" flag:"--since only events created since"`
	Until time.Time `json:"until,omitzero" flag:"--until only events created until"`

	// Resume continues the run of the source that was interrupted, with its period.
	Resume bool `json:"resume,omitempty" flag:"--resume continue the run that was interrupted"`

	// DryRun reports the missing events and changes nothing. After is the next of the previous answer of a dry run, to continue
	// where it ended, with the same since and until.
	DryRun bool   `json:"dry_run,omitempty" flag:"--dry-run report the missing events, and change nothing"`
	After  string `json:"after,omitempty"`
}

// ReconciledSource reports a run. If it is not complete, repeat the request with resume or, for a dry run, with
// after. A run counts everything since it began, and a dry run counts this request alone.
type ReconciledSource struct {
	DryRun bool `json:"dry_run"`
	reconcile.Report
}

// reconcileBudget is how long one request reads pages.
const reconcileBudget = 10 * time.Second

// Reconcile asks the sender of a source which events there were, and admits those that never arrived.
var Reconcile = Operation[ReconcileRequest, ReconciledSource]{
	ID: "reconcile_source", Method: "POST", Path: "/reconcile", Scope: Operate,
	Summary: "Ask the sender of a source which events there were, for at most about 10 seconds, and admit those that never arrived.",
	Why:     "why may events be missing? (--dry-run needs none.)",
	Do: func(ctx context.Context, s *Service, access Access, r ReconcileRequest) (out ReconciledSource, err error) {
		out.DryRun = r.DryRun
		switch {
		case r.Source == "":
			return out, invalid("source is missing")
		case r.Resume && (r.DryRun || !r.Since.IsZero() || !r.Until.IsZero()):
			return out, invalid("resume takes the period of the run that was interrupted, and goes neither with since and until nor with dry_run")
		case r.After != "" && (!r.DryRun || r.Since.IsZero() || r.Until.IsZero()):
			return out, invalid("after continues a dry run, with the since and until of its answer")
		}
		if !r.DryRun {
			if err := inbox.CheckExplanation(access.Actor, r.Reason); err != nil {
				return out, err
			}
		}
		if err := s.ownsSource(ctx, access, r.Source); err != nil {
			return out, err
		}
		if !r.DryRun {
			if err := s.takes(ctx, access, r.Source); err != nil {
				return out, err
			}
		}
		settings, err := s.settings()
		if err != nil {
			return out, err
		}
		budget := reconcileBudget
		if s.cfg.Patient {
			budget = 0
		}
		out.Report, err = app.Reconcile(ctx, app.ReconcileConfig{
			Settings: settings, Logger: s.cfg.Logger, Source: r.Source, Since: r.Since, Until: r.Until, Resume: r.Resume, DryRun: r.DryRun, Cursor: r.After,
			Actor: access.Actor, Reason: r.Reason, Budget: budget, Now: s.cfg.Now,
			Progress: func(so reconcile.Report) { s.cfg.Progress("listing", int64(so.Listed)) },
		})
		return out, err
	},
}

// takes refuses to record events of a paused source.
func (s *Service) takes(ctx context.Context, access Access, source string) error {
	paused, err := s.pauses(ctx, access)
	if err != nil {
		return err
	}
	if p := paused.Of(pause.Source, source); p != nil {
		return &Problem{Code: CodeConflict, Detail: fmt.Sprintf("source %s is paused by %s: %s; resume it first, or make a dry run", source, p.By, p.Reason)}
	}
	return nil
}

// SourceReconcile is how the sender of a source is asked which events there were, and the result of the last run.
type SourceReconcile struct {
	// Credential is the reference to the credential, and Host the server that Oncegate asks.
	Credential string `json:"credential"`
	Host       string `json:"host"`

	// Every is the time between two scheduled runs. It is empty if there is no schedule.
	Every string `json:"every,omitempty"`

	// Last is the last run. It is absent if there was none.
	Last *reconcile.Last `json:"last,omitempty"`
}

// reconcileOf returns how the sender of a source is asked, or nil if it is not.
func (s *Service) reconcileOf(ctx context.Context, id int32, source *config.Source) (*SourceReconcile, error) {
	if source.Reconcile == nil {
		return nil, nil
	}
	out := &SourceReconcile{Credential: source.Reconcile.Credential.String(), Host: source.Reconcile.Listing().Host()}
	if every := source.Reconcile.Every; every > 0 {
		out.Every = every.String()
	}
	var err error
	out.Last, err = reconcile.Read(ctx, s.cfg.Lists, id)
	return out, err
}
