package app

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// Results asks today's targets about the steps of an audit. Their probes say whether a step was done, and their dry
// runs what they would do with it. The configuration declares both questions; a target without them is not asked. Call
// Close when it is no longer needed.
type Results struct {
	judge   *Judge
	probes  map[string]*forward.Prober
	dryRuns map[string]*dryRun
	kept    *keptQuestions
}

// Results makes the probes and the dry runs of the configuration's targets.
func (j *Judge) Results() (*Results, error) {
	out := &Results{judge: j, probes: map[string]*forward.Prober{}, dryRuns: map[string]*dryRun{}}
	for _, t := range j.cfg.Settings.Targets {
		if t.Probe != nil {
			probe, err := forward.NewProber(probeConfig(t))
			if err != nil {
				return nil, fmt.Errorf("target %s: %w", t.Name, err)
			}
			out.probes[t.Name] = probe
		}
		if t.DryRun != nil {
			run, err := newDryRun(t, j.limits[t.Name], j.cfg.Now)
			if err != nil {
				return nil, fmt.Errorf("target %s: dry_run: %w", t.Name, err)
			}
			out.dryRuns[t.Name] = run
		}
	}
	out.kept = newKeptQuestions(out.dryRuns)
	return out, nil
}

// Comparison returns the judge's comparison. It also stores the questions for the dry runs.
func (r *Results) Comparison() *Comparison { return &Comparison{judge: r.judge, kept: r.kept} }

// Close closes the connections to the targets.
func (r *Results) Close() {
	for _, probe := range r.probes {
		probe.Close()
	}
	for _, run := range r.dryRuns {
		run.runner.Close()
	}
}

// Compare asks the target of each step, one after the other, and adds the answer to the stored result. It calls progress
// with the number of finished steps. A step no longer matches if the target's answer differs from its result.
func (r *Results) Compare(ctx context.Context, audit *replay.Audit, progress func(steps int)) error {
	defer audit.CountMatching()
	for i := range audit.Steps {
		s := &audit.Steps[i]
		if s.Original != nil {
			s.Result = &replay.StepResult{Stored: string(s.State), Target: "no probe"}
			if s.Original.LastCode != "" {
				s.Result.Stored += " " + s.Original.LastCode
			}
			r.probe(ctx, audit, s)
			s.Result.DryRun = r.kept.ask(ctx, s)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		progress(i + 1)
	}
	return nil
}

func (r *Results) probe(ctx context.Context, audit *replay.Audit, s *replay.RunStep) {
	probe := r.probes[s.Original.Target]
	if probe == nil {
		return
	}
	found := probe.Probe(ctx, &effect.Call{
		Event: effect.Event{ID: s.Event.String(), Source: audit.Source, EventID: s.EventID, Type: s.Operation}, Route: s.Route, Key: s.Original.Key,
	})
	s.Result.Target = string(found.Outcome)
	if found.Code != "" {
		s.Result.Target += " " + found.Code
	}
	s.Result.Match = agree(s.State, found.Outcome)
}

// agree reports whether a state and the target's answer agree, or nil if one of them is unknown. A target may lack an
// effect that is still to be sent.
func agree(state inbox.EffectState, found effect.ProbeOutcome) *bool {
	switch {
	case found == effect.ProbeUnknown, state == inbox.EffectIndeterminate, state == inbox.EffectDuplicate:
		return nil
	case state == inbox.EffectDone:
		return new(found == effect.ProbeDone)
	}
	return new(found == effect.ProbeAbsent)
}
