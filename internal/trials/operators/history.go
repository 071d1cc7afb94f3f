package main

import (
	"regexp"
	"slices"
	"time"
)

// ending says that an effect was ended, and how: by a person, or as the database shows it.
type ending struct {
	kind string
	span
	by string
}

// How effects are ended.
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

// seenInDatabase says of an ending that the database shows it, whoever ended it.
const seenInDatabase = "what the database shows"

// permit says that a person asked for an effect to be sent: decided is when they said so, a
// plan when it was made; from is when that could take effect.
type permit struct {
	decided   span
	from      time.Time
	overrides []string // endings that it overrides
	who       string
}

// mayHaveHappened is covered by what sends an effect again that may have happened.
const mayHaveHappened = "unknown"

// history is what is known of an effect.
type history struct {
	id, key       string
	source, event string
	route         string
	requests      []*request
	endings       []ending
	permits       []permit
	state, reason string // as the database had it last
	probed        bool   // a probe was told that it happened
	missing       bool   // it is not in the database any more
	changed       bool   // something is new since it was judged
	finished      time.Time
}

// newKeySuffix matches what replays under new keys put behind the first one.
var newKeySuffix = regexp.MustCompile(`~v[0-9]+$`)

// baseKey is an effect's first key.
func baseKey(key string) string { return newKeySuffix.ReplaceAllString(key, "") }

// isPermitted reports whether a person asked, after the ending, for what was sent at a time.
func (h *history) isPermitted(e *ending, at time.Time) bool {
	return slices.ContainsFunc(h.permits, func(p permit) bool {
		return !p.from.After(at) && !p.decided.to.Before(e.from) && slices.Contains(p.overrides, e.kind)
	})
}

// isResendPermitted reports whether a person asked for an effect to be sent again that may have
// happened at first, before it was sent at second.
func (h *history) isResendPermitted(first, second time.Time) bool {
	return slices.ContainsFunc(h.permits, func(p permit) bool {
		return !p.from.After(second) && !p.decided.to.Before(first) && slices.Contains(p.overrides, mayHaveHappened)
	})
}

// wasDecided reports whether a person had anything to do with the effect by then.
func (h *history) wasDecided(at time.Time) bool {
	return slices.ContainsFunc(h.permits, func(p permit) bool { return !p.from.After(at) })
}

// lastDecision is what a person decided last about the effect; nil if nobody did.
func (h *history) lastDecision() *ending {
	var last *ending
	for i := range h.endings {
		if e := &h.endings[i]; e.by != seenInDatabase && (last == nil || last.to.Before(e.to)) && (e.kind == discarded || e.kind == resolved) {
			last = e
		}
	}
	return last
}
