package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox/pause"
)

// PauseRequest names a source or a target that is paused or resumed.
type PauseRequest struct {
	Explained `required:"reason"`

	// Name is the name of the source or the target.
	Name string `json:"name"`
}

// PauseRouteRequest names a route that is paused or resumed.
type PauseRouteRequest struct {
	Explained `required:"reason"`

	// Source and Route identify the route.
	Source string `json:"source"`
	Route  string `json:"route"`
}

// PauseState says whether a source, a route or a target is paused.
type PauseState struct {
	pause.Thing

	// Paused says since when, by whom and why. It is absent if it is not paused.
	Paused *pause.Pause `json:"paused,omitempty"`
}

// PauseSource stops a source from taking deliveries.
var PauseSource = Operation[PauseRequest, PauseState]{
	ID: "pause_source", Method: "POST", Path: "/sources/{name}/pause", Scope: Operate,
	Summary: "Have a source answer 503 to all deliveries, so that its sender keeps them. Nothing is recorded. What is recorded already is carried out.",
	Why:     "why does it take no deliveries?",
	Do: func(ctx context.Context, s *Service, access Access, r PauseRequest) (PauseState, error) {
		return s.pause(ctx, access, pause.Thing{Kind: pause.Source, Name: r.Name}, r.Reason)
	},
}

// ResumeSource lets a paused source take deliveries again.
var ResumeSource = Operation[PauseRequest, PauseState]{
	ID: "resume_source", Method: "POST", Path: "/sources/{name}/resume", Scope: Operate,
	Summary: "Have a paused source take deliveries again.",
	Why:     "why may it take deliveries again?",
	Do: func(ctx context.Context, s *Service, access Access, r PauseRequest) (PauseState, error) {
		return s.resume(ctx, access, pause.Thing{Kind: pause.Source, Name: r.Name}, r.Reason)
	},
}

// PauseRoute has the effects of a route wait.
var PauseRoute = Operation[PauseRouteRequest, PauseState]{
	ID: "pause_route", Method: "POST", Path: "/routes/{source}/{route}/pause", Scope: Operate,
	Summary: "Have the effects of a route wait. They keep their attempts and their order. Attempts under way finish.",
	Why:     "why do its effects wait?",
	Do: func(ctx context.Context, s *Service, access Access, r PauseRouteRequest) (PauseState, error) {
		return s.pause(ctx, access, r.thing(), r.Reason)
	},
}

// ResumeRoute lets the effects of a paused route run.
var ResumeRoute = Operation[PauseRouteRequest, PauseState]{
	ID: "resume_route", Method: "POST", Path: "/routes/{source}/{route}/resume", Scope: Operate,
	Summary: "Let the effects of a paused route run. They still wait if their target is paused too.",
	Why:     "why may its effects run?",
	Do: func(ctx context.Context, s *Service, access Access, r PauseRouteRequest) (PauseState, error) {
		return s.resume(ctx, access, r.thing(), r.Reason)
	},
}

// PauseTarget has the effects of all routes to a target wait.
var PauseTarget = Operation[PauseRequest, PauseState]{
	ID: "pause_target", Method: "POST", Path: "/targets/{name}/pause", Scope: Operate,
	Summary: "Have the effects of all routes to a target wait. They keep their attempts and their order. Attempts under way finish.",
	Why:     "why do its effects wait?",
	Do: func(ctx context.Context, s *Service, access Access, r PauseRequest) (PauseState, error) {
		return s.pause(ctx, access, pause.Thing{Kind: pause.Target, Name: r.Name}, r.Reason)
	},
}

// ResumeTarget lets the effects of a paused target run.
var ResumeTarget = Operation[PauseRequest, PauseState]{
	ID: "resume_target", Method: "POST", Path: "/targets/{name}/resume", Scope: Operate,
	Summary: "Let the effects of a paused target run. Those of a route that is paused itself still wait.",
	Why:     "why may its effects run?",
	Do: func(ctx context.Context, s *Service, access Access, r PauseRequest) (PauseState, error) {
		return s.resume(ctx, access, pause.Thing{Kind: pause.Target, Name: r.Name}, r.Reason)
	},
}

func (r PauseRouteRequest) thing() pause.Thing {
	return pause.Thing{Kind: pause.Route, Name: r.Source + "/" + r.Route}
}

func (s *Service) pause(ctx context.Context, access Access, thing pause.Thing, reason string) (PauseState, error) {
	if err := s.mayPause(ctx, access, thing); err != nil {
		return PauseState{}, err
	}
	paused, err := pause.Set(ctx, s.cfg.Pool, thing, pause.Decision{Actor: access.Actor, Reason: reason})
	return PauseState{Thing: thing, Paused: &paused}, err
}

func (s *Service) resume(ctx context.Context, access Access, thing pause.Thing, reason string) (PauseState, error) {
	if err := s.mayPause(ctx, access, thing); err != nil {
		return PauseState{}, err
	}
	return PauseState{Thing: thing}, pause.Lift(ctx, s.cfg.Pool, thing, pause.Decision{Actor: access.Actor, Reason: reason})
}

// shownNames is how many names a refusal lists.
const shownNames = 20

// mayPause refuses a name that does not exist, and says which do.
func (s *Service) mayPause(ctx context.Context, access Access, thing pause.Thing) error {
	if thing.Kind == pause.Target {
		if err := access.untenanted("targets"); err != nil {
			return err
		}
	}
	names, err := pause.Known(ctx, s.cfg.Pool, thing.Kind, access.Tenant)
	if err != nil {
		return err
	}
	if thing.Kind == pause.Target && s.cfg.Settings != nil {
		for _, target := range s.cfg.Settings.Targets {
			names = append(names, target.Name)
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return named(thing.Kind, thing.Name, names)
}

// named refuses a name that is not among those that exist.
func named(kind pause.Kind, name string, names []string) error {
	if slices.Contains(names, name) {
		return nil
	}
	return &Problem{Code: CodeNotFound, Detail: fmt.Sprintf("no %s is named %q; %s", kind, name, existing(kind, names))}
}

// existing says in one sentence which names exist.
func existing(kind pause.Kind, names []string) string {
	more := ""
	if n := len(names) - shownNames; n > 0 {
		names, more = names[:shownNames], fmt.Sprintf(" and %d more", n)
	}
	switch len(names) {
	case 0:
		return fmt.Sprintf("there is no %s yet", kind)
	case 1:
		return fmt.Sprintf("the only %s is %s", kind, names[0])
	}
	return fmt.Sprintf("the %ss are %s%s", kind, strings.Join(names, ", "), more)
}

// pauses reads the pauses that the access may see.
func (s *Service) pauses(ctx context.Context, access Access) (pause.Pauses, error) {
	return pause.List(ctx, s.cfg.Lists, access.Tenant)
}
