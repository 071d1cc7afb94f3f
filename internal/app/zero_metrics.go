package app

import "github.com/oncegate/oncegate/internal/config"

// A counter that is created by its first event shows no increase for that event. So the counters
// from whose increase an alert is made are created at the start, with 0. All others begin with their
// first event, because a process can have thousands of sources.

// begin creates the series of every route whose target cannot deduplicate.
func (m *unsettledMetrics) begin(sources []*config.Source, metered metered) {
	for _, s := range sources {
		for _, r := range s.Routes {
			if !deduplicates(r.Target) {
				source, route := metered.labels(s.Name, r.Name)
				m.indeterminate.WithLabelValues(source, route, r.Target.Name)
			}
		}
	}
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
	case config.KindForward, config.KindDev, config.KindMail, config.KindPublish, config.KindHandler:
	}
	return t.Idempotent
}
