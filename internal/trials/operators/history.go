package main

import (
	"regexp"
	"slices"
	"time"
)

// ending says how an effect was ended, when and by whom.
type ending struct {
	kind string
	span
	by string
}

// The kinds of endings.
const (
	discarded  = "discarded"
	resolved   = "resolved"
	erased     = "erased"
	pruned     = "pruned"
	done       = "done"
	superseded = "superseded"
	duplicate  = "duplicate"
	skipped    = "skipped"
)

// seenInDatabase is the actor of an ending that only the database shows.
const seenInDatabase = "what the database shows"

// permit says that an operator asked for an effect to be sent. decided is when they did so, which for a plan is when it
// was made; from is when it could take effect.
type permit struct {
	decided   span
	from      time.Time
	overrides []string // kinds of endings that it overrides
	who       string
}

// mayHaveHappened is overridden by every permit to send an effect again that may have happened.
const mayHaveHappened = "unknown"

// history is everything that the campaign knows about an effect.
type history struct {
	id, key       string
	source, event string
	route         string
	requests      []*request
	endings       []ending
	permits       []permit
	state, reason string // as the database had them last
	probed        bool   // a probe was told that it had happened
	missing       bool   // it is no longer in the database
	changed       bool   // something is new since it was last judged
	finished      time.Time
}

// newKeySuffix matches what a replay under a new key appends to the first key.
var newKeySuffix = regexp.MustCompile(`~v[0-9]+$`)

// baseKey is an effect's first key.
func baseKey(key string) string { return newKeySuffix.ReplaceAllString(key, "") }

// isPermitted reports whether an operator asked, after an ending, for what was sent at a time.
func (h *history) isPermitted(e *ending, at time.Time) bool {
	return slices.ContainsFunc(h.permits, func(p permit) bool {
		return !p.from.After(at) && !p.decided.to.Before(e.from) && slices.Contains(p.overrides, e.kind)
	})
}

// isResendPermitted reports whether an operator asked, between two sendings, for an effect to be sent again that may
// have happened.
func (h *history) isResendPermitted(first, second time.Time) bool {
	return slices.ContainsFunc(h.permits, func(p permit) bool {
		return !p.from.After(second) && !p.decided.to.Before(first) && slices.Contains(p.overrides, mayHaveHappened)
	})
}

// wasDecided reports whether an operator had decided anything about the effect by then.
func (h *history) wasDecided(at time.Time) bool {
	return slices.ContainsFunc(h.permits, func(p permit) bool { return !p.from.After(at) })
}

// lastDecision is the last decision of an operator about the effect; nil if there is none.
func (h *history) lastDecision() *ending {
	var last *ending
	for i := range h.endings {
		if e := &h.endings[i]; e.by != seenInDatabase && (last == nil || last.to.Before(e.to)) && (e.kind == discarded || e.kind == resolved) {
			last = e
		}
	}
	return last
}
