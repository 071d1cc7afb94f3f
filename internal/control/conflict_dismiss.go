package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
)

// DismissConflictsRequest says which conflicts need no event: those named by their ids, or those that a dry run found.
type DismissConflictsRequest struct {
	Explained

	// IDs name conflicts.
	IDs []inbox.ID `json:"ids,omitempty"`

	// Filter selects them for a dry run.
	Filter ConflictFilter `json:"filter,omitzero"`

	// All selects every conflict that waits, for a dry run.
	All bool `json:"all,omitempty" flag:"--all every conflict that waits"`

	// Seen is what a dry run found.
	Seen Seen `json:"seen,omitempty"`

	// Max is the largest number that a dry run may find; it is refused if it finds more. It defaults to 1,000 and is at
	// most 100,000.
	Max int `json:"max,omitempty" flag:"--max do nothing if more match"`

	// DryRun counts them and changes nothing.
	DryRun bool `json:"dry_run,omitempty" flag:"--dry-run count them and change nothing"`
}

// DismissedConflicts is the result for the conflicts.
type DismissedConflicts struct {
	decide.DismissedConflicts

	// Left is how many the request did not handle: repeat it with Seen. For a dry run it is all that were found.
	Left int `json:"left"`

	// Seen are those that are left.
	Seen Seen `json:"seen,omitempty"`
}

// IsEmpty reports whether nothing matched.
func (r DismissedConflicts) IsEmpty() bool { return r.Matched == 0 }

// DismissConflicts decides that conflicts need no event.
var DismissConflicts = Operation[DismissConflictsRequest, DismissedConflicts]{
	ID: "dismiss_conflicts", Method: "POST", Path: "/conflicts/dismiss", Scope: Operate,
	Summary: "Decide that conflicts need no event: they wait for nobody, and can still be admitted. Find them with dry_run, then hand back its seen.",
	Why:     "why need they no event?", Confirm: "dismiss",
	Do: func(ctx context.Context, s *Service, access Access, r DismissConflictsRequest) (out DismissedConflicts, err error) {
		d := decide.DismissConflicts{IDs: r.IDs, All: r.All, Tenant: access.Tenant, DryRun: true, Actor: access.Actor, Reason: r.Reason}
		if d.Max, err = bounded(r.Max, decide.DefaultDiscards, decide.MaxDiscards); err != nil {
			return out, err
		}
		if err := checkWhich("conflicts", r.Seen, len(r.IDs), r.Filter != (ConflictFilter{}) || r.All, r.DryRun); err != nil {
			return out, err
		}
		found, err := r.Seen.read(decide.MaxDiscards)
		if r.Seen == "" {
			if d.Filter, err = r.Filter.filter(access); err != nil {
				return out, err
			}
			out.DismissedConflicts, err = decide.New(s.store).Dismiss(ctx, d)
			found = mapped(out.DismissedConflicts.Seen, sightOf)
		} else if err != nil {
			err = invalid("%v", err)
		} else {
			err = s.lister.CheckTenant(ctx, access.Tenant, sightIDs(found)...)
		}
		if err != nil {
			return out, err
		}
		if r.DryRun {
			out.Left, out.Seen = len(found), seenOf(found)
			return out, nil
		}
		now, left := chosen(found)
		if len(now) > 0 {
			d = decide.DismissConflicts{Seen: mapped(now, sight.seen), Max: step, Tenant: access.Tenant, Actor: access.Actor, Reason: r.Reason}
			if out.DismissedConflicts, err = decide.New(s.store).Dismiss(ctx, d); err != nil {
				return out, err
			}
		}
		out.Matched, out.Left, out.Seen = len(found), len(left), seenOf(left)
		return out, nil
	},
}
