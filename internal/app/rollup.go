package app

import (
	"cmp"
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// makeRollup makes the counts by minute, once for all parts that count. It is started before them and stopped after
// them.
func (a *App) makeRollup() (err error) {
	if a.rollup != nil || a.cfg.Uncounted {
		return nil
	}
	self := inbox.NewToken() // for a command, which is not among the nodes
	if a.fleet != nil {
		self = a.fleet.ID()
	}
	a.rollup, err = rollup.New(rollup.Config{DB: a.adminPool, Node: self, Now: a.clock.Now, Logger: a.log})
	if err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "counts", run: func(ctx context.Context) error {
		a.cleanups.add("counts", a.rollup.Stop)
		a.rollup.Start(ctx)
		a.chores = append(a.chores, func(ctx context.Context) { _ = a.rollup.Flush(ctx) }) // the next flush writes what this one could not
		return nil
	}})
	return nil
}

// countEvents counts the events of a delivery by what the gate did with them.
func (a *App) countEvents(d *inbox.Admission, receipt *inbox.Receipt, at time.Time) {
	counters := a.rollup.Counters(d.Source.ID, 0, cmp.Or(d.Tenant, d.Source.Tenant))
	recorded := 0
	for i := range receipt.Items {
		item := &receipt.Items[i]
		switch item.Outcome {
		case inbox.Recorded:
			recorded++
			if item.Unusable || item.BeyondRetention {
				counters.Add(at, rollup.Unusable, 1)
			}
			if item.SuspectedReplay {
				counters.Add(at, rollup.Suspected, 1)
			}
		case inbox.Duplicate:
			counters.Add(at, rollup.Duplicates, 1)
		case inbox.Conflict:
			counters.Add(at, rollup.Conflicts, 1)
		}
	}
	counters.AddEvents(at, recorded)
}

// countEffect counts how an attempt ended and how long it took, or that an effect reached a resting state without an attempt.
func (a *App) countEffect(r *jobs.Report) {
	source, ok := a.sources[r.Source]
	if !ok { // the route does not belong to this process
		return
	}
	counters := a.rollup.Counters(source.ID, source.Routes[r.Route].ID, cmp.Or(r.Tenant, a.tenantOf(r.Source)))
	if r.Attempt > 0 && r.Outcome != inbox.AttemptSkipped && r.Elapsed > 0 {
		counters.AddLatency(a.rollup.Now(), r.Elapsed)
	}
	var kind rollup.Kind
	switch r.State {
	case inbox.EffectDone:
		kind = rollup.Done
	case inbox.EffectDead:
		kind = rollup.Dead
	case inbox.EffectIndeterminate:
		kind = rollup.Indeterminate
	case inbox.EffectRetry:
		if r.Outcome == "" { // it was put off
			return
		}
		kind = rollup.Retried
	default: // the other states are not counted
		return
	}
	counters.Add(a.rollup.Now(), kind, 1)
}

// countProbed counts an effect that happened according to its target.
func (a *App) countProbed(r *jobs.ProbeReport) {
	if r.Resolved && r.Outcome == effect.ProbeDone {
		a.countEffect(&jobs.Report{Source: r.Source, Route: r.Route, State: inbox.EffectDone})
	}
}

// tenantOf returns the tenant of a source in the configuration.
func (a *App) tenantOf(source string) string {
	for _, s := range a.settings.Sources {
		if s.Name == source {
			return s.Tenant
		}
	}
	return ""
}
