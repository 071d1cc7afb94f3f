package app

import (
	"slices"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/config"
)

// A counter that is created by its first event shows no increase for that event. Every combination
// of labels that can occur is therefore created at the start, with 0.

// attemptReasons returns the reasons with which an attempt at a target of the kind can end.
func attemptReasons(kind config.Kind) []reasons.Reason {
	common := []reasons.Reason{
		reasons.Exhausted, reasons.Deadline, reasons.LeaseExpired, reasons.Stopped, reasons.Panic, reasons.Timeout,
		reasons.BodyGone, reasons.Damaged, reasons.Render, reasons.Mapping, reasons.Other, reasons.FetchFailed, reasons.FetchRefused,
	}
	network := []reasons.Reason{reasons.Address, reasons.DNS, reasons.Connect, reasons.TLS, reasons.Connection, reasons.Reply}
	switch kind {
	case config.KindForward, config.KindDev:
		return slices.Concat(common, network, []reasons.Reason{
			reasons.KeyWindow, reasons.Elsewhere, reasons.Informational, reasons.Redirect, reasons.Status408, reasons.Status409, reasons.Status410,
			reasons.Status425, reasons.Status429, reasons.Status4xx, reasons.Status503, reasons.Status5xx,
		})
	case config.KindMail:
		return slices.Concat(common, network, []reasons.Reason{reasons.Mail4xx, reasons.Mail5xx})
	case config.KindSQL, config.KindSuppress:
		return slices.Concat(common, []reasons.Reason{
			reasons.Serialization, reasons.Deadlock, reasons.LockTimeout, reasons.SQLTimeout, reasons.Unavailable, reasons.SQL,
		})
	case config.KindHandler:
		return slices.Concat(common, []reasons.Reason{
			reasons.Handler, reasons.Serialization, reasons.Deadlock, reasons.LockTimeout, reasons.SQLTimeout,
			reasons.Unavailable, reasons.SQL,
		})
	case config.KindNoop:
	}
	return common
}

// postponements returns the reasons for which an effect is put off.
func postponements() []reasons.Reason {
	return []reasons.Reason{
		reasons.Breaker, reasons.Rate, reasons.Saturated, reasons.KeyMissing, reasons.Elsewhere, reasons.Unavailable, reasons.ListOpen,
	}
}

// begin creates the series of every route.
func (m *workMetrics) begin(sources []*config.Source) {
	eachRoute(sources, func(source string, r *config.Route) {
		t := r.Target
		m.attempts.WithLabelValues(source, r.Name, t.Name, string(inbox.AttemptDone), "")
		outcomes := []inbox.AttemptOutcome{inbox.AttemptRetry, inbox.AttemptDead}
		if !deduplicates(t) {
			outcomes = append(outcomes, inbox.AttemptIndeterminate)
		}
		for _, outcome := range outcomes {
			for _, reason := range attemptReasons(t.Kind) {
				m.attempts.WithLabelValues(source, r.Name, t.Name, string(outcome), string(reason))
			}
		}
		if t.Kind == config.KindMail {
			m.attempts.WithLabelValues(source, r.Name, t.Name, string(inbox.AttemptSkipped), string(reasons.Suppressed))
		}
		m.attempts.WithLabelValues(source, r.Name, t.Name, string(inbox.AttemptLost), string(reasons.LeaseExpired))
		for _, reason := range postponements() {
			m.postponed.WithLabelValues(source, r.Name, t.Name, string(reason))
		}
		for _, state := range []inbox.EffectState{inbox.EffectDead, inbox.EffectSkipped, inbox.EffectDuplicate, inbox.EffectSuperseded} {
			m.without.WithLabelValues(source, r.Name, t.Name, string(state))
		}
	})
}

// begin creates the series of every route.
func (m *unsettledMetrics) begin(sources []*config.Source) {
	eachRoute(sources, func(source string, r *config.Route) {
		m.recognised.WithLabelValues(source, r.Name, r.Target.Name)
		if deduplicates(r.Target) {
			return
		}
		for _, reason := range attemptReasons(r.Target.Kind) {
			m.indeterminate.WithLabelValues(source, r.Name, r.Target.Name, string(reason))
		}
	})
}

// begin creates the series of every table from which prune removes rows, and of every way in which
// a pass ends.
func (m *pruneMetrics) begin() {
	for _, table := range []string{
		"audit", "conflict", "effect", "effect_attempt", "effect_key", "event_label", "inbox_body", "inbox_event", "operation_result", "refusal", "replay",
		"replay_item", "stream", "suppression",
	} {
		m.rows.WithLabelValues(table)
	}
	for _, outcome := range []string{"complete", "short", "skipped"} {
		m.passes.WithLabelValues(outcome)
	}
}

// deduplicates reports whether an attempt at the target never leaves its outcome unknown.
func deduplicates(t *config.Target) bool {
	switch t.Kind {
	case config.KindSQL, config.KindSuppress, config.KindNoop:
		return true
	case config.KindForward, config.KindDev, config.KindMail, config.KindHandler:
	}
	return t.Idempotent
}

func eachRoute(sources []*config.Source, do func(source string, r *config.Route)) {
	for _, s := range sources {
		for _, r := range s.Routes {
			do(s.Name, r)
		}
	}
}
