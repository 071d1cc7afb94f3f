package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/rollup"
)

// ListTargetsRequest asks for the targets.
type ListTargetsRequest struct{}

// Target is a target with what waits for it, over all its routes.
type Target struct {
	// Name is the name of the target. Kind is how effects reach it, and Address is where it is, without credentials. Both are
	// empty if the configuration of the server that answers does not have the target.
	Name    string `json:"name"`
	Kind    string `json:"kind,omitempty"`
	Address string `json:"address,omitempty"`

	// TestURL is where test events go, without credentials. It is absent if the target has no test_url.
	TestURL string `json:"test_url,omitempty"`

	// Routes are the routes that lead to it, as <source>/<route>.
	Routes []string `json:"routes"`

	// Waiting, Claimed, Dead and Indeterminate count its effects that are not settled.
	Waiting       int `json:"waiting"`
	Claimed       int `json:"claimed"`
	Dead          int `json:"dead"`
	Indeterminate int `json:"indeterminate"`

	// Oldest is when the event of the oldest effect that waits was received. It is absent if none waits.
	Oldest *time.Time `json:"oldest,omitempty"`

	// OpenBreakers are the names of the processes that made no attempts at it at their last heartbeat, because it fails.
	OpenBreakers []string `json:"open_breakers,omitempty"`

	// Paused says since when its effects wait, by whom and why. It is absent if the target is not paused.
	Paused *pause.Pause `json:"paused,omitempty"`
}

// ListTargets lists the targets.
var ListTargets = Operation[ListTargetsRequest, read.Page[Target]]{
	ID: "list_targets", Method: "GET", Path: "/targets", Scope: ReadMetadata,
	Summary: "List every target that a route leads to or that is configured, with what waits for it.",
	Do: func(ctx context.Context, s *Service, access Access, _ ListTargetsRequest) (page read.Page[Target], err error) {
		all, _, err := s.targets(ctx, access)
		return whole(all), err
	},
}

// TargetReference names a target.
type TargetReference struct {
	// Name is the name of a target.
	Name string `json:"name"`
}

// TargetDetail is a target with its routes.
type TargetDetail struct {
	Target

	// Backlogs are the routes that lead to it, with what waits for each.
	Backlogs []read.RouteBacklog `json:"backlogs"`

	// NextTry is when the next attempt is due, of the effects in Waits. It is absent if none waits.
	NextTry *time.Time `json:"next_try,omitempty"`

	// Waits are the newest effects that wait for another attempt after one that failed, at most ten.
	Waits []read.EffectRow `json:"waits"`

	// Attempts are the counts of the last hour, with how long the attempts took, and Failed the share of the attempts that did not
	// succeed. Failed is 0 if there was no attempt.
	Attempts rollup.Counts `json:"attempts"`
	Failed   float64       `json:"failed"`

	// Answers are the last attempts of the effects in Waits and of the newest dead letters of the target, newest first, at most ten.
	Answers []read.LastAttempt `json:"answers"`
}

// shownWaits is how many of the effects that wait for a target are shown with it.
const shownWaits = 10

// ShowTarget shows one target.
var ShowTarget = Operation[TargetReference, *TargetDetail]{
	ID: "show_target", Method: "GET", Path: "/targets/{name}", Scope: ReadMetadata,
	Summary: "Show one target with its routes and what waits for them.",
	Do: func(ctx context.Context, s *Service, access Access, r TargetReference) (*TargetDetail, error) {
		all, routes, err := s.targets(ctx, access)
		if err != nil {
			return nil, err
		}
		if err := named(pause.Target, r.Name, mapped(all, func(t Target) string { return t.Name })); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(t Target) bool { return t.Name == r.Name })
		out := &TargetDetail{Target: all[at], Backlogs: slices.DeleteFunc(routes, func(b read.RouteBacklog) bool { return b.Target != r.Name })}
		return out, s.addAttempts(ctx, access, out)
	},
}

// addAttempts adds what waits for the target after a failure, and what its attempts came to in the last hour.
func (s *Service) addAttempts(ctx context.Context, access Access, out *TargetDetail) error {
	page, err := ListEffects.Do(ctx, s, access, ListEffectsRequest{PageRequest: PageRequest{Limit: shownWaits}, EffectFilter: EffectFilter{Target: out.Name, State: string(inbox.EffectRetry)}})
	if err != nil {
		return err
	}
	out.Waits = page.Data
	for i := range out.Waits {
		if next := out.Waits[i].NextAt; next != nil && (out.NextTry == nil || next.Before(*out.NextTry)) {
			out.NextTry = next
		}
	}
	if err := s.addAnswers(ctx, access, out); err != nil {
		return err
	}
	sums, err := rollup.NewReader(s.cfg.Lists).Sums(ctx, rollup.Filter{Target: out.Name, Tenant: access.Tenant})
	if err != nil {
		return err
	}
	total := sums.Total()
	out.Attempts = rollup.Counts{Done: total.Done, Retried: total.Retried, Dead: total.Dead, Indeterminate: total.Indeterminate, Attempted: total.Attempted}
	failed := total.Retried + total.Dead + total.Indeterminate
	if all := total.Done + failed; all > 0 {
		out.Failed = float64(failed) / float64(all)
	}
	return nil
}

// addAnswers adds the last attempts that failed.
func (s *Service) addAnswers(ctx context.Context, access Access, out *TargetDetail) error {
	dead, err := ListEffects.Do(ctx, s, access, ListEffectsRequest{PageRequest: PageRequest{Limit: shownWaits}, EffectFilter: EffectFilter{Target: out.Name, State: string(inbox.EffectDead)}})
	if err != nil {
		return err
	}
	ids := mapped(append(slices.Clone(out.Waits), dead.Data...), func(e read.EffectRow) inbox.ID { return e.ID })
	out.Answers, err = s.lister.LastAttempts(ctx, ids)
	out.Answers = out.Answers[:min(len(out.Answers), shownWaits)]
	return err
}

// openBreakers returns, by target, the names of the live processes that make no attempts at it.
func (s *Service) openBreakers(ctx context.Context) (map[string][]string, error) {
	nodes, err := node.List(ctx, s.cfg.Lists)
	out := map[string][]string{}
	for i := range nodes {
		for _, target := range nodes[i].OpenBreakers {
			if nodes[i].Live && !slices.Contains(out[target], nodes[i].Name) {
				out[target] = append(out[target], nodes[i].Name)
			}
		}
	}
	return out, err
}

// targets sums the routes that the access may see by target, sorted by name. An access without a tenant sees the targets of the
// configuration to which no route leads, too.
func (s *Service) targets(ctx context.Context, access Access) ([]Target, []read.RouteBacklog, error) {
	page, err := ListRoutes.Do(ctx, s, access, ListRoutesRequest{})
	if err != nil {
		return nil, nil, err
	}
	paused, err := s.pauses(ctx, access)
	if err != nil {
		return nil, nil, err
	}
	open, err := s.openBreakers(ctx)
	if err != nil {
		return nil, nil, err
	}
	sums := map[string]*Target{}
	sum := func(name string) *Target {
		if sums[name] == nil {
			sums[name] = &Target{Name: name, Routes: []string{}, Paused: paused.Of(pause.Target, name), OpenBreakers: open[name]}
		}
		return sums[name]
	}
	for i := range page.Data {
		r := &page.Data[i]
		t := sum(r.Target)
		t.Routes = append(t.Routes, r.Source+"/"+r.Route)
		t.Waiting, t.Claimed = t.Waiting+r.Waiting, t.Claimed+r.Claimed
		t.Dead, t.Indeterminate = t.Dead+r.Dead, t.Indeterminate+r.Indeterminate
		if r.Oldest != nil && (t.Oldest == nil || r.Oldest.Before(*t.Oldest)) {
			t.Oldest = r.Oldest
		}
	}
	if s.cfg.Settings != nil {
		for _, configured := range s.cfg.Settings.Targets {
			if access.Tenant != "" && sums[configured.Name] == nil {
				continue
			}
			t := sum(configured.Name)
			t.Kind, t.Address, t.TestURL = string(configured.Kind), configured.ShownURL(), configured.ShownTestURL()
		}
	}
	out := make([]Target, 0, len(sums))
	for _, t := range sums {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b Target) int { return cmp.Compare(a.Name, b.Name) })
	return out, page.Data, nil
}
