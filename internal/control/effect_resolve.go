package control

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
)

// ResolveEffectRequest records the outcome of an effect whose outcome is unknown.
type ResolveEffectRequest struct {
	Match
	Explained `required:"reason"`

	// ID identifies the effect.
	ID inbox.ID `json:"id"`

	// As is done if the effect happened, or resend to send it again.
	As decide.Resolution `json:"as"`

	// CalledAgain is for resend: send it again although a later call repeats the effect's operation.
	CalledAgain bool `json:"called_again,omitempty" flag:"--called-again with --resend: although a later call repeats its operation"`
}

// ResolvedEffect is the decision that was recorded.
type ResolvedEffect struct {
	Effect   inbox.ID          `json:"effect"`
	Resolved decide.Resolution `json:"resolved"`
}

// ResolveEffect records the outcome of an effect whose outcome is unknown.
var ResolveEffect = Operation[ResolveEffectRequest, ResolvedEffect]{
	ID: "resolve_effect", Method: "POST", Path: "/effects/{id}/resolve", Scope: Operate,
	Summary: "Resolve an effect whose outcome is unknown: done, or resend, which happens twice if it had happened.",
	Why:     "how do you know?",
	Do: func(ctx context.Context, s *Service, access Access, r ResolveEffectRequest) (out ResolvedEffect, err error) {
		if err := checkResolution(r.As); err != nil {
			return out, err
		}
		if r.CalledAgain && r.As != decide.ResolveResend {
			return out, invalid("called_again goes with resend")
		}
		if err := s.lister.CheckTenant(ctx, access.Tenant, r.ID); err != nil {
			return out, err
		}
		decision := decide.Resolve{Effect: r.ID, As: r.As, CalledAgain: r.CalledAgain, Actor: access.Actor, Reason: r.Reason}
		if r.IfMatch != "" {
			effect, err := s.lister.Effect(ctx, r.ID)
			if err != nil {
				return out, err
			}
			if err := r.check(effect.Tag()); err != nil {
				return out, err
			}
			decision.Version, decision.Revision = effect.Version, effect.Revision
		}
		if err := decide.New(s.store).Resolve(ctx, decision); err != nil {
			return out, r.changed(err)
		}
		return ResolvedEffect{Effect: r.ID, Resolved: r.As}, nil
	},
}

func checkResolution(as decide.Resolution) error {
	if as != decide.ResolveDone && as != decide.ResolveResend {
		return invalid("as %q: must be done or resend", as)
	}
	return nil
}

// UnknownFilter narrows the effects whose outcome is unknown. A zero field does not narrow them.
type UnknownFilter struct {
	TenantFilter `flag:"--tenant only this tenant"`

	// Source, Route and Target are names of a source, a route and a target. Type is the event's type.
	Source string `json:"source,omitempty" flag:"--source only this source"`
	Type   string `json:"type,omitempty" flag:"--type only this event type"`
	Route  string `json:"route,omitempty" flag:"--route only this route"`
	Target string `json:"target,omitempty" flag:"--target only this target"`

	// Since is the earliest receipt of the event. Until is the end of the receipts.
	Since time.Time `json:"since,omitzero" flag:"--since only those received since"`
	Until time.Time `json:"until,omitzero" flag:"--until only those received before"`
}

// ResolveEffectsRequest records the outcome of many effects whose outcome is unknown, which a dry run found.
type ResolveEffectsRequest struct {
	Explained

	// As is done if they happened, or resend to send them again.
	As decide.Resolution `json:"as,omitempty"`

	// IDs name them for a dry run, at most 100,000. Those whose outcome is not unknown are left out and counted as unmatched.
	IDs []inbox.ID `json:"ids,omitempty"`

	// Filter selects them for a dry run. All selects every one.
	Filter UnknownFilter `json:"filter,omitzero"`
	All    bool          `json:"all,omitempty" flag:"--all every indeterminate effect there is"`

	// Seen is what a dry run found.
	Seen Seen `json:"seen,omitempty"`

	// Max is the largest number that a dry run may find; it is refused if it finds more. It defaults to 1,000
	// and is at most 100,000.
	Max int `json:"max,omitempty" flag:"--max do nothing if more match"`

	// DryRun counts them and changes nothing.
	DryRun bool `json:"dry_run,omitempty" flag:"--dry-run count those that a filter finds, and change nothing"`
}

// ResolvedEffects is the result for the effects.
type ResolvedEffects struct {
	decide.ResolvedMany

	// Matched is how many effects a dry run found or Seen named. Groups counts the effects of a dry run by source,
	// route and target.
	Matched int                 `json:"matched"`
	Groups  []read.UnknownGroup `json:"groups,omitempty"`

	// Unmatched is how many of the ids of a dry run name no effect with an unknown outcome. Such an effect does not exist, or is decided
	// already.
	Unmatched int `json:"unmatched,omitempty"`

	// Examples are a few of the effects that a dry run found.
	Examples []read.EffectRow `json:"examples,omitempty"`

	// Left is how many the request did not handle: repeat it with Seen. For a dry run it is all that were found.
	Left int  `json:"left"`
	Seen Seen `json:"seen,omitempty"`
}

// ResolveEffects records the outcome of many effects whose outcome is unknown.
var ResolveEffects = Operation[ResolveEffectsRequest, ResolvedEffects]{
	ID: "resolve_effects", Method: "POST", Path: "/indeterminates/resolve", Scope: Operate,
	Summary: "Resolve many effects whose outcome is unknown. Find them with dry_run, then send back its seen.",
	Why:     "how do you know?",
	Do: func(ctx context.Context, s *Service, access Access, r ResolveEffectsRequest) (out ResolvedEffects, err error) {
		if r.Max, err = bounded(r.Max, decide.DefaultDiscards, decide.MaxDiscards); err != nil {
			return out, err
		}
		if r.DryRun {
			return s.findUnknown(ctx, access, r)
		}
		if err := checkResolution(r.As); err != nil {
			return out, err
		}
		if r.Seen == "" {
			return out, invalid("seen is missing: make the request with dry_run first, and hand back its seen")
		}
		if r.All || r.Filter != (UnknownFilter{}) || len(r.IDs) > 0 {
			return out, invalid("seen says which: leave ids, filter and all out")
		}
		found, err := r.Seen.read(decide.MaxDiscards)
		if err != nil {
			return out, invalid("%v", err)
		}
		if err := s.lister.CheckTenant(ctx, access.Tenant, sightIDs(found)...); err != nil {
			return out, err
		}
		now, left := chosen(found)
		out.ResolvedMany, err = decide.New(s.store).ResolveMany(ctx, decide.ResolveMany{
			Effects: mapped(now, func(one sight) read.Unknown {
				return read.Unknown{Effect: one.id, Version: one.version, Revision: one.revision}
			}),
			As: r.As, Actor: access.Actor, Reason: r.Reason,
		})
		out.Matched, out.Left, out.Seen = len(found), len(left), seenOf(left)
		return out, err
	},
}

// shownExamples is how many effects a dry run shows.
const shownExamples = 5

// findUnknown counts the effects that ids name or a filter selects.
func (s *Service) findUnknown(ctx context.Context, access Access, r ResolveEffectsRequest) (out ResolvedEffects, err error) {
	filtered := r.Filter != (UnknownFilter{}) || r.All
	switch {
	case r.Seen != "":
		return out, invalid("seen and dry_run exclude each other")
	case !filtered && len(r.IDs) == 0:
		return out, invalid("name effects by ids or a filter, or say all")
	case filtered && len(r.IDs) > 0:
		return out, invalid("name effects by ids or by a filter, not both")
	case len(r.IDs) > decide.MaxDiscards:
		return out, invalid("%d ids are more than %d: make several requests", len(r.IDs), decide.MaxDiscards)
	}
	tenant, err := r.Filter.narrow(access)
	if err != nil {
		return out, err
	}
	if err := ordered(r.Filter.Since, r.Filter.Until); err != nil {
		return out, err
	}
	filter := read.UnknownFilter{
		Source: r.Filter.Source, Type: r.Filter.Type, Route: r.Filter.Route, Target: r.Filter.Target, Tenant: tenant, Since: r.Filter.Since, Until: r.Filter.Until,
	}
	var found []read.Unknown
	if filtered {
		found, err = s.lister.Unknown(ctx, filter, r.Max+1)
	} else {
		ids := slices.Clone(r.IDs)
		slices.SortFunc(ids, func(a, b inbox.ID) int { return bytes.Compare(a[:], b[:]) })
		ids = slices.Compact(ids)
		found, err = s.lister.UnknownOf(ctx, ids, tenant)
		out.Unmatched = len(ids) - len(found)
	}
	if err != nil {
		return out, err
	}
	if len(found) > r.Max {
		return out, &Problem{Code: CodeBound, Detail: moreThan(r.Max)}
	}
	out.Matched, out.Left = len(found), len(found)
	out.Seen = seenOf(mapped(found, func(u read.Unknown) sight { return sight{id: u.Effect, version: u.Version, revision: u.Revision} }))
	few := mapped(found[:min(len(found), shownExamples)], func(u read.Unknown) inbox.ID { return u.Effect })
	if out.Examples, err = s.lister.EffectRows(ctx, few); err != nil || !filtered {
		return out, err
	}
	groups, err := s.lister.UnknownGroups(ctx, filter)
	out.Groups = groups.Data
	return out, err
}
