package main

import (
	"regexp"
	"slices"
	"time"
)

// ending says that an effect was ended, and how: by a person, or as the database shows it.
type ending struct {
	how string
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

// byDatabase says of an ending that the database shows it, whoever ended it.
const byDatabase = "what the database shows"

// permit says that a person asked for an effect to be sent: decided is when they said so, a
// plan when it was made; from is when that could take effect.
type permit struct {
	decided span
	from    time.Time
	covers  []string // endings that it overrides
	by      string
}

// unknown is covered by what sends an effect again that may have happened.
const unknown = "unknown"

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
	gone          bool   // it is not in the database any more
	dirty         bool   // something is new since it was judged
	finished      time.Time
}

// fresh matches what replays under new keys put behind the first one.
var fresh = regexp.MustCompile(`~v[0-9]+$`)

// baseKey is an effect's first key.
func baseKey(key string) string { return fresh.ReplaceAllString(key, "") }

// permitted reports whether a person asked, after the ending, for what was sent at a time.
func (h *history) permitted(e *ending, at time.Time) bool {
	return slices.ContainsFunc(h.permits, func(p permit) bool {
		return !p.from.After(at) && !p.decided.to.Before(e.from) && slices.Contains(p.covers, e.how)
	})
}

// resent reports whether a person asked for an effect to be sent again that may have
// happened at first, before it was sent at second.
func (h *history) resent(first, second time.Time) bool {
	return slices.ContainsFunc(h.permits, func(p permit) bool {
		return !p.from.After(second) && !p.decided.to.Before(first) && slices.Contains(p.covers, unknown)
	})
}

// asked reports whether a person had anything to do with the effect by then.
func (h *history) asked(at time.Time) bool {
	return slices.ContainsFunc(h.permits, func(p permit) bool { return !p.from.After(at) })
}

// last is what a person decided last about the effect; nil if nobody did.
func (h *history) last() *ending {
	var last *ending
	for i := range h.endings {
		if e := &h.endings[i]; e.by != byDatabase && (last == nil || last.to.Before(e.to)) && (e.how == discarded || e.how == resolved) {
			last = e
		}
	}
	return last
}
