package app

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// Results asks the probes of today's targets what has become of the steps of an audit. A probe is a question that
// the configuration declares, and changes nothing; a target without one is not asked.
type Results struct{ probes map[string]effect.Prober }

// Results makes the probes of the configuration's targets.
func (j *Judge) Results() (*Results, error) {
	out := &Results{probes: map[string]effect.Prober{}}
	for _, t := range j.cfg.Settings.Targets {
		if t.Probe == nil {
			continue
		}
		probe, err := forward.NewProber(probeConfig(t))
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", t.Name, err)
		}
		out.probes[t.Name] = probe
	}
	return out, nil
}

// Compare asks about each step, one after the other, and writes what the targets say beside what is stored.
func (r *Results) Compare(ctx context.Context, audit *replay.Audit) error {
	for i := range audit.Steps {
		s := &audit.Steps[i]
		if s.Original == nil {
			continue
		}
		s.Result = &replay.StepResult{Stored: string(s.State), Target: "no probe"}
		if s.Original.LastCode != "" {
			s.Result.Stored += " " + s.Original.LastCode
		}
		probe := r.probes[s.Original.Target]
		if probe == nil {
			continue
		}
		found := probe.Probe(ctx, &effect.Call{
			Event: effect.Event{ID: s.Event.String(), Source: audit.Source, EventID: s.EventID, Type: s.Operation}, Route: s.Route, Key: s.Original.Key,
		})
		if err := ctx.Err(); err != nil {
			return err
		}
		s.Result.Target = string(found.Outcome)
		if found.Code != "" {
			s.Result.Target += " " + found.Code
		}
		s.Result.Match = agree(s.State, found.Outcome)
	}
	return nil
}

// agree reports whether a state and the target's word fit; nil where either says nothing. That a target does not
// know of an effect which is still to be sent is no difference.
func agree(state inbox.EffectState, found effect.ProbeOutcome) *bool {
	said := func(yes bool) *bool { return &yes }
	switch {
	case found == effect.ProbeUnknown, state == inbox.EffectIndeterminate, state == inbox.EffectDuplicate:
		return nil
	case state == inbox.EffectDone:
		return said(found == effect.ProbeDone)
	}
	return said(found == effect.ProbeAbsent)
}
