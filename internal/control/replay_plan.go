package control

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
)

// ReplayScope says what a replay is about: effects and events by their ids, what a filter selects, or everything in a
// resting state.
type ReplayScope struct {
	// IDs name effects, or events with all their effects.
	IDs []inbox.ID `json:"ids,omitempty"`

	// Filter selects them.
	Filter DeadLetterFilter `json:"filter,omitzero"`

	// All selects everything in a resting state.
	All bool `json:"all,omitempty" flag:"--all everything that is at rest"`

	RunScope
}

// PlanReplayRequest says what to plan. The reason may also be given when the plan is run.
type PlanReplayRequest struct {
	Explained
	ReplayScope

	// Options are what the plan includes in addition to dead effects.
	Options replay.Options `json:"options,omitzero"`
}

// PlannedReplay is a plan. If it is still being made, read it again until its state is not planning.
type PlannedReplay struct {
	replay.Replay

	// Warnings name the parts of the configuration that the plan leaves out, one per line.
	Warnings []string `json:"warnings,omitempty"`
}

// PlanReplay plans a replay without doing anything.
var PlanReplay = Operation[PlanReplayRequest, PlannedReplay]{
	ID: "plan_replay", Method: "POST", Path: "/replays", Scope: Operate,
	Summary: "Plan a replay without doing anything. Planning a large replay continues after the answer: ask for it until its state is planned.",
	Do: func(ctx context.Context, s *Service, access Access, r PlanReplayRequest) (PlannedReplay, error) {
		wait := planWait
		if s.cfg.Patient {
			wait = planLongest
		}
		return s.planReplay(ctx, access, r, wait)
	},
}

const (
	// planWait is how long an answer waits for a plan. Most plans are made by then.
	planWait = 3 * time.Second

	// planSlot is how long a plan waits for another one. Plans read many rows, so only one is made at a time.
	planSlot = 5 * time.Second

	// planLongest bounds a plan that is still being made after its request was answered.
	planLongest = time.Hour
)

// planReplay makes a plan. It waits for the plan at most as long as wait.
func (s *Service) planReplay(ctx context.Context, access Access, r PlanReplayRequest, wait time.Duration) (out PlannedReplay, err error) {
	scope, err := s.replayScope(access, r.ReplayScope)
	if err != nil {
		return out, err
	}
	store, warnings, err := s.planner(ctx, access)
	if err != nil {
		return out, err
	}
	out.Warnings = append(warnings, s.undeclared(access, scope.Label)...)
	if err := takeSlot(ctx, s.planning, "another replay is being planned; ask again when its plan is made"); err != nil {
		return out, err
	}
	begun, ended := make(chan inbox.ID, 1), make(chan error, 1)
	ask := replay.PlanRequest{
		Scope: scope, Options: r.Options, Actor: access.Actor, Reason: r.Reason, Begun: func(id inbox.ID) { begun <- id },
		Progress: func(items int) { s.cfg.Progress("planning", int64(items)) },
	}
	var plan *replay.Replay
	s.background(ctx, planLongest, func(ctx context.Context) {
		defer func() { <-s.planning }()
		var err error
		if plan, err = store.Plan(ctx, ask); err != nil {
			s.cfg.Logger.WarnContext(ctx, "a replay was not planned", slog.Any("error", err))
		}
		ended <- err
	})
	late := time.NewTimer(wait)
	defer late.Stop()
	planned := func(err error) (PlannedReplay, error) {
		if err == nil {
			out.Replay = *plan
		}
		return out, err
	}
	select {
	case err := <-ended:
		return planned(err)
	case <-ctx.Done():
		return out, ctx.Err()
	case <-late.C:
	}
	select { // the plan continues after the answer, which needs its id
	case id := <-begun:
		so, err := s.runs.Status(ctx, id)
		if err == nil {
			out.Replay = *so
		}
		return out, err
	case err := <-ended:
		return planned(err)
	case <-ctx.Done():
		return out, ctx.Err()
	}
}

// replayScope checks the scope of a plan and limits it to what the access may see.
func (s *Service) replayScope(access Access, r ReplayScope) (out replay.Scope, err error) {
	if out.DeadFilter, err = r.Filter.filter(access); err != nil {
		return out, err
	}
	out.IDs, out.All = r.IDs, r.All
	filtered := r.Filter != (DeadLetterFilter{}) || r.RunScope != (RunScope{})
	if len(r.IDs) > 0 && (filtered || r.All) || r.All && filtered {
		return out, invalid("ids, a filter and all exclude each other")
	}
	if len(r.IDs) == 0 && !filtered && !r.All {
		return out, invalid("name the effects to replay by ids, by a filter, a run or a label, or say all")
	}
	label, err := r.RunScope.check(s, access, out.Source)
	if err != nil {
		return out, err
	}
	if out.Run = providers.KeyPart(r.Run); r.Label != "" {
		out.Label = &read.EventLabel{Name: label.Name, Value: label.Value}
	}
	if access.Tenant != "" {
		out.All = false // everything of the tenant
	}
	return out, nil
}

// planner returns the store that makes plans. It uses today's configuration if that is known.
func (s *Service) planner(ctx context.Context, access Access) (*replay.Store, []string, error) {
	if s.cfg.Settings == nil {
		return s.runs, nil, nil
	}
	judge, err := app.NewJudge(ctx, app.JudgeConfig{
		Settings: s.cfg.Settings, Pool: s.cfg.Plans, Keyring: s.cfg.Keyring, Logger: s.cfg.Logger, DevURL: s.cfg.DevURL, Now: s.cfg.Now,
	})
	if err != nil {
		return nil, nil, err
	}
	var warnings []string
	for _, route := range s.namedTo(access, judge.Unregistered) {
		warnings = append(warnings, fmt.Sprintf("no server has been started with route %s yet: nothing is planned for it", route))
	}
	for _, route := range s.namedTo(access, judge.Stale) {
		warnings = append(warnings, fmt.Sprintf("route %s is not what the servers were started with: restart them before the replay is run", route))
	}
	store, err := replay.New(replay.Config{Pool: s.cfg.Plans, Store: s.store, Judge: judge, Archive: s.cfg.Archive})
	return store, warnings, err
}

// namedTo returns the routes, as source/route, without those of sources that have no events of the access's tenant.
func (s *Service) namedTo(access Access, routes []string) []string {
	return slices.DeleteFunc(slices.Clone(routes), func(route string) bool {
		source, _, _ := strings.Cut(route, "/")
		return !slices.ContainsFunc(s.declaredSources(access), func(known *config.Source) bool { return known.Name == source })
	})
}

// declaredSources are the sources of the configuration from which events of the access's tenant may come.
func (s *Service) declaredSources(access Access) []*config.Source {
	return slices.DeleteFunc(slices.Clone(s.cfg.Settings.Sources), func(known *config.Source) bool {
		return access.Tenant != "" && !slices.Contains(known.Tenants(), access.Tenant)
	})
}

// takeSlot waits a while for a place among those that do something expensive. busy says who is in the way.
func takeSlot(ctx context.Context, slots chan struct{}, busy string) error {
	timed, cancel := context.WithTimeout(ctx, planSlot)
	defer cancel()
	select {
	case slots <- struct{}{}:
		return nil
	case <-timed.Done():
		if err := ctx.Err(); err != nil {
			return err
		}
		return &Problem{Code: CodeUnavailable, Detail: busy}
	}
}

// replayOf reads a replay that the access may see.
func (s *Service) replayOf(ctx context.Context, access Access, id inbox.ID) (*replay.Replay, error) {
	out, err := s.runs.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	return out, access.owns(out.Scope.Tenant, "replay", id.String())
}
