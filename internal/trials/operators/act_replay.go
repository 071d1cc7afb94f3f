package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// plannedReplay is a plan, as the command returned it.
type plannedReplay struct {
	id, digest string
	options    replay.Options
	planned    span
	by         string
	items      []string // the effects that it acts on
	runs       []*act
	cancelled  []*act
}

// overrides returns the kinds of endings that the plan overrides, by what it includes.
func (r *plannedReplay) overrides() []string {
	var out []string
	if r.options.IncludeIndeterminate {
		out = append(out, mayHaveHappened)
	}
	if r.options.IncludeDone {
		out = append(out, done, resolved, mayHaveHappened)
	}
	if r.options.IncludeDiscarded {
		out = append(out, discarded)
	}
	return out
}

// makePlan plans some effects, a filter, or everything, with random inclusions.
func (o *operator) makePlan(ctx context.Context) (bool, error) {
	args := []string{"replay", "plan"}
	switch n := o.random.IntN(10); {
	case n < 6:
		states := []string{"dead", "indeterminate"}
		if o.random.IntN(4) == 0 {
			states = []string{"skipped", "dead", "indeterminate"}
			args = append(args, "--include-discarded")
		} else if o.random.IntN(8) == 0 {
			states = []string{"done"}
			args = append(args, "--include-done", "--new-key")
		}
		ids, err := o.drawIDs(ctx, 1+o.random.IntN(5), newestInState, states, o.candidateCount())
		if err != nil || len(ids) == 0 {
			return false, err
		}
		args = append(args, ids...)
	case n < 8:
		args = append(args, o.drawFilter()...)
	default:
		args = append(args, "--all")
	}
	if o.random.IntN(2) == 0 {
		args = append(args, "--include-indeterminate")
	}
	var out replay.Replay
	a, err := o.runCommand(ctx, commandOptions{kind: "replay plan", decides: true}, &out, args...)
	if err != nil || a.ExitCode != 0 {
		return true, err
	}
	_, err = o.recordPlan(ctx, a, &out)
	return true, err
}

// newRoutes plans and runs what the route extra did not take, which is not in every configuration.
func (o *operator) newRoutes(ctx context.Context) (bool, error) {
	var out replay.Replay
	a, err := o.runCommand(ctx, commandOptions{kind: "replay plan --new-routes", decides: true}, &out, "replay", "plan", "--new-routes", "--source", "pay", "--route", "extra")
	if err != nil || a.ExitCode != 0 {
		return true, err
	}
	r, err := o.recordPlan(ctx, a, &out)
	if err != nil {
		return true, err
	}
	a, err = o.runCommand(ctx, commandOptions{kind: "replay run", decides: true}, &struct{}{}, "replay", "run", r.id, "--digest", r.digest[:replay.MinDigest])
	o.recordRun(r, a)
	return true, err
}

// recordPlan records a plan with the effects that it acts on.
func (o *operator) recordPlan(ctx context.Context, a *act, out *replay.Replay) (*plannedReplay, error) {
	r := &plannedReplay{id: out.ID.String(), digest: out.Digest, options: out.Options, planned: a.span(), by: a.String()}
	rows, err := o.db.Query(ctx, `SELECT effect_id::text FROM replay_item WHERE replay_id = $1 AND left_out IS NULL AND effect_id IS NOT NULL`, r.id)
	if err != nil {
		return r, fmt.Errorf("reading a plan: %w", err)
	}
	if r.items, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return r, fmt.Errorf("reading a plan: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replays = append(o.replays, r)
	return r, nil
}

// drawRecentPlan draws one of the last plans.
func (o *operator) drawRecentPlan(fit func(*plannedReplay) bool) *plannedReplay {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found []*plannedReplay
	for _, r := range o.replays[max(0, len(o.replays)-12):] {
		if fit(r) {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[o.random.IntN(len(found))]
}

// runPlan runs a plan, sometimes one that runs already or has ended.
func (o *operator) runPlan(ctx context.Context) (bool, error) {
	again := o.random.IntN(6) == 0
	r := o.drawRecentPlan(func(r *plannedReplay) bool { return again == (len(r.runs) > 0) && (again || len(r.items) > 0) })
	if r == nil {
		return false, nil
	}
	rate := []string{"0", "3", "50"}[o.random.IntN(3)]
	name := "replay run"
	if again {
		name = "replay run again"
	}
	a, err := o.runCommand(ctx, commandOptions{kind: name, decides: true}, &struct{}{}, "replay", "run", r.id, "--digest", r.digest[:replay.MinDigest], "--rate", rate)
	o.recordRun(r, a)
	return true, err
}

// recordRun records that a plan may run from now on.
func (o *operator) recordRun(r *plannedReplay, a *act) {
	if a.ExitCode != 0 && !a.killed {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r.runs = append(r.runs, a)
}

func (o *operator) cancelPlan(ctx context.Context) (bool, error) {
	r := o.drawRecentPlan(func(r *plannedReplay) bool { return len(r.cancelled) == 0 })
	if r == nil {
		return false, nil
	}
	var out replay.Replay
	a, err := o.runCommand(ctx, commandOptions{kind: "replay cancel", decides: true}, &out, "replay", "cancel", r.id)
	if err == nil && a.ExitCode == 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		r.cancelled = append(r.cancelled, a)
	}
	return true, err
}

// deadReplay plans and runs in one step, and reads afterwards what was planned.
func (o *operator) deadReplay(ctx context.Context) (bool, error) {
	ids, err := o.drawIDs(ctx, 1+o.random.IntN(3), newestInState, []string{"dead"}, o.candidateCount())
	if err != nil || len(ids) == 0 {
		return false, err
	}
	args := append([]string{"dead", "replay"}, ids...)
	include := o.random.IntN(3) == 0
	if include {
		args = append(args, "--include-indeterminate")
	}
	var raw json.RawMessage
	a, err := o.runCommand(ctx, commandOptions{kind: "dead replay", decides: true, confirms: true}, &raw, args...)
	if err != nil {
		return true, err
	}
	if a.ExitCode == 0 {
		var out replay.Replay
		if err := json.Unmarshal(raw, &out); err != nil {
			o.violate(rig.NewViolation(exitedWrongly, "%s wrote what is no replay: %v", a, err))
			return true, nil
		}
		r, err := o.recordPlan(ctx, a, &out)
		o.recordRun(r, a)
		return true, err
	}
	// The command may have planned and begun to run before it was killed.
	id, err := o.drawID(ctx, `SELECT id::text FROM replay WHERE reason = $1 AND digest IS NOT NULL`, a.reason())
	if err != nil || id == "" {
		return true, err
	}
	var out replay.Replay
	if out.ID, err = inbox.ParseID(id); err != nil {
		return true, err
	}
	out.Options.IncludeIndeterminate = include
	r, err := o.recordPlan(ctx, a, &out)
	o.recordRun(r, a)
	return true, err
}

// permit returns what a run of the plan permits its effects from an act on.
func (r *plannedReplay) permit(a *act) permit {
	return permit{decided: r.planned, from: a.Started, overrides: r.overrides(), who: r.by + " " + strings.Join(a.args[:min(2, len(a.args))], " ")}
}
