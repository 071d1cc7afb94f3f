package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
)

// DiscardDeadLettersRequest says which dead letters will not happen: those named by their ids, or those that a dry run
// found.
type DiscardDeadLettersRequest struct {
	Match
	Explained

	// IDs name effects, and events that are dead letters themselves.
	IDs []inbox.ID `json:"ids,omitempty"`

	// Filter selects them for a dry run.
	Filter DeadLetterFilter `json:"filter,omitzero"`

	// All selects every dead letter for a dry run.
	All bool `json:"all,omitempty" flag:"--all every dead letter there is"`

	// Seen is what a dry run found.
	Seen Seen `json:"seen,omitempty"`

	// Max is the largest number that a dry run may find; it is refused if it finds more. It defaults to 1,000 and is at
	// most 100,000.
	Max int `json:"max,omitempty" flag:"--max do nothing if more match"`

	// DryRun counts them and changes nothing.
	DryRun bool `json:"dry_run,omitempty" flag:"--dry-run count them and change nothing"`
}

// DiscardedDeadLetters is the result for the dead letters.
type DiscardedDeadLetters struct {
	decide.Discarded

	// Left is how many the request did not handle: repeat it with Seen. For a dry run it is all that were found.
	Left int `json:"left"`

	// Seen are those that are left.
	Seen Seen `json:"seen,omitempty"`
}

// IsEmpty reports whether nothing matched.
func (r DiscardedDeadLetters) IsEmpty() bool { return r.Matched == 0 }

// DiscardDeadLetters decides that dead letters will not happen.
var DiscardDeadLetters = Operation[DiscardDeadLettersRequest, DiscardedDeadLetters]{
	ID: "discard_dead_letters", Method: "POST", Path: "/dead-letters/discard", Scope: Operate,
	Summary: "Decide that dead letters will not happen: their effects become skipped. Find them with dry_run, then hand back its seen.",
	Why:     "why need they not happen?", Confirm: "discard",
	Do: func(ctx context.Context, s *Service, access Access, r DiscardDeadLettersRequest) (out DiscardedDeadLetters, err error) {
		if r.Max, err = bounded(r.Max, decide.DefaultDiscards, decide.MaxDiscards); err != nil {
			return out, err
		}
		found, err := s.deadLetters(ctx, access, r)
		if err != nil {
			return out, r.changed(err)
		}
		if err := s.checkNamed(ctx, access, r.Match, r.IDs); err != nil { // found has the versions of before: a later change is left alone
			return out, err
		}
		out.Matched = len(found)
		if r.DryRun {
			out.Left, out.Seen = len(found), seenOf(found)
			return out, nil
		}
		now, left := chosen(found)
		if len(now) > 0 {
			if out.Discarded, err = decide.New(s.store).Discard(ctx, decide.Discard{All: true, Max: step, Seen: mapped(now, sight.seen), Actor: access.Actor, Reason: r.Reason}); err != nil {
				return out, r.changed(err)
			}
		}
		out.Matched, out.Left, out.Seen = len(found), len(left), seenOf(left)
		return out, nil
	},
}

// deadLetters returns the dead letters that a request is about.
func (s *Service) deadLetters(ctx context.Context, access Access, r DiscardDeadLettersRequest) ([]sight, error) {
	if err := checkWhich("dead letters", r.Seen, len(r.IDs), r.Filter != (DeadLetterFilter{}) || r.All, r.DryRun); err != nil {
		return nil, err
	}
	if r.Seen != "" {
		found, err := r.Seen.read(decide.MaxDiscards)
		if err != nil {
			return nil, invalid("%v", err)
		}
		return found, s.lister.CheckTenant(ctx, access.Tenant, sightIDs(found)...)
	}
	if err := s.lister.CheckTenant(ctx, access.Tenant, r.IDs...); err != nil {
		return nil, err
	}
	ask := decide.Discard{IDs: r.IDs, All: r.All, Max: r.Max, DryRun: true}
	if len(r.IDs) == 0 {
		var err error
		if ask.Filter, err = r.Filter.filter(access); err != nil {
			return nil, err
		}
	}
	found, err := decide.New(s.store).Discard(ctx, ask)
	if err != nil {
		return nil, err
	}
	return mapped(found.Seen, sightOf), nil
}
