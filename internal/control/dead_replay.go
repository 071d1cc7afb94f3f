package control

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
)

// ReplayDeadLettersRequest names dead letters that are planned and replayed in one step.
type ReplayDeadLettersRequest struct {
	Match
	Explained

	// IDs name effects, or events with all their effects; at most 1,000.
	IDs []inbox.ID `json:"ids,omitempty"`

	// Source is the name of the source of a run. Instead of ids, a run or a label names the dead letters.
	Source string `json:"source,omitempty"`

	RunScope

	// Options are what the plan includes in addition to dead effects.
	Options replay.Options `json:"options,omitzero"`

	// Rate is the largest number of items per second. 0 is as many as live deliveries leave room
	// for.
	Rate float32 `json:"rate,omitempty"`

	// DryRun makes the plan and does not run it.
	DryRun bool `json:"dry_run,omitempty"`
}

// ReplayDeadLetters plans a replay and runs it.
var ReplayDeadLetters = Operation[ReplayDeadLettersRequest, PlannedReplay]{
	ID: "replay_dead_letters", Method: "POST", Path: "/dead-letters/replay", Scope: Operate,
	Summary: "Plan a replay of dead letters by their ids, a run or a label, and run it if there is anything to do. For another filter, or more than 1,000 of them, plan and run in two steps.",
	Why:     "why are they replayed?",
	Do: func(ctx context.Context, s *Service, access Access, r ReplayDeadLettersRequest) (out PlannedReplay, err error) {
		named := len(r.IDs) > 0 || r.RunScope == (RunScope{})
		if named && (len(r.IDs) == 0 || len(r.IDs) > step) {
			return out, invalid("ids: from 1 to %d, not %d; plan a replay for a filter, or for more", step, len(r.IDs))
		}
		if err := s.lister.CheckTenant(ctx, access.Tenant, r.IDs...); err != nil {
			return out, err
		}
		if err := s.checkNamed(ctx, access, r.Match, r.IDs); err != nil {
			return out, err
		}
		if !r.DryRun {
			if err := inbox.CheckExplanation(access.Actor, r.Reason); err != nil {
				return out, err
			}
		}
		out, err = s.planReplay(ctx, access, PlanReplayRequest{Explained: r.Explained, ReplayScope: ReplayScope{IDs: r.IDs, Filter: DeadLetterFilter{Source: r.Source}, RunScope: r.RunScope}, Options: r.Options}, deadPlanWait)
		if err != nil || r.DryRun {
			return out, err
		}
		if out.State == replay.Planning {
			return out, &Problem{Code: CodeUnavailable, Detail: fmt.Sprintf("replay %s is still being planned; run it when its state is planned", out.ID)}
		}
		if out.Summary.ToDo == 0 {
			return out, nil
		}
		if err := s.checkNamed(ctx, access, r.Match, r.IDs); err != nil { // the plan has the state between the two looks
			return out, err
		}
		if !named && out.Summary.ToDo > step {
			return out, &Problem{Code: CodeBound, Detail: fmt.Sprintf("the plan %s would send %d, more than %d, and was not run: look at it, and run it by its digest", out.ID, out.Summary.ToDo, step)}
		}
		out.Replay, err = s.runReplay(ctx, access, RunReplayRequest{ID: out.ID, Digest: out.Digest, Rate: r.Rate, Explained: r.Explained})
		return out, err
	},
}

// deadPlanWait is longer than planWait because there are few effects and the run waits for their
// plan.
const deadPlanWait = 15 * time.Second
