package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// violation is one way in which a promise was broken.
type violation = rig.Violation

// The kinds of violation.
const (
	overridden    = "overridden"  // sent after it had been ended, although no operator asked for it
	doubled       = "doubled"     // sent again to a target that cannot deduplicate, although no operator asked for it
	altered       = "altered"     // other bytes under the same key
	unexpected    = "unexpected"  // sent under a key that no effect has
	disordered    = "disordered"  // sent before its turn, or after its successor
	lost          = "lost"        // acknowledged and not recorded, or done and never answered with success
	unfinished    = "unfinished"  // not at rest, although it waits for nothing
	unexplained   = "unexplained" // ended in a way that nothing in the campaign causes
	unbalanced    = "unbalanced"  // the tables do not agree with each other
	miscounted    = "miscounted"  // a command reports another number than it did
	undecided     = "undecided"   // a command reports a decision that was not made
	exitedWrongly = "exit"        // a command ended in a way that is not documented
	keptOrderKey  = "key kept"    // a stream has its order key although an event of it was erased
	leaked        = "leaked"      // erased or sealed content is in the database in plain text
	damaged       = "damaged"     // a sealed value does not open
	keptOldKey    = "kept"        // a value is still under an old key
	crashed       = "crashed"     // a server ended by itself
	stopped       = "stopped"     // another role of the database stopped the work, or prune did not wait for its lock
	endless       = "unending"    // a replay does not end, or acts after its end
)

// describe names an effect in a violation.
func (h *history) describe() string {
	return fmt.Sprintf("%s/%s %s, effect %s, key %s", h.source, h.event, h.route, h.id, h.key)
}

// name is the effect's event, as requests name it.
func (h *history) name() string { return h.source + "/" + h.event }

// timeline lists everything known about the effect in the order of time, one line each.
func (h *history) timeline() string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, r := range h.requests {
		lines = append(lines, line{r.at, fmt.Sprintf("sent under %s, attempt %s, answered with %d", r.key, r.attempt, r.answer)})
	}
	for _, e := range h.endings {
		lines = append(lines, line{e.to, fmt.Sprintf("%s between %s and then by %s", e.kind, e.from.Format(clockFormat), e.by)})
	}
	for _, p := range h.permits {
		lines = append(lines, line{p.from, fmt.Sprintf("asked for again, over %v, as decided from %s to %s by %s", p.overrides, p.decided.from.Format(clockFormat), p.decided.to.Format(clockFormat), p.who)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var text strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&text, "\n        %s %s", l.at.Format(clockFormat), l.text)
	}
	return text.String()
}

// clockFormat is how times are printed.
const clockFormat = "15:04:05.000"

// judgeRequests compares what was sent for an effect with what operators decided about it.
func judgeRequests(h *history) []violation {
	var out []violation
	slices.SortStableFunc(h.requests, func(a, b *request) int { return a.at.Compare(b.at) })
	bodies := map[string][sha256.Size]byte{}
	for i, r := range h.requests {
		for j := range h.endings {
			e := &h.endings[j]
			if e.to.Before(r.at) && !h.isPermitted(e, r.at) {
				out = append(out, violation{Kind: overridden, Detail: fmt.Sprintf("%s was sent at %s although it was %s by %s, and nobody asked for it afterwards%s",
					h.describe(), r.at.Format(clockFormat), e.kind, e.by, h.timeline())})
				break
			}
		}
		if i > 0 && r.once {
			if before := h.requests[i-1]; !before.isRefusal() && !h.isResendPermitted(before.at, r.at) {
				out = append(out, violation{Kind: doubled, Detail: fmt.Sprintf("%s was sent at %s and, after an answer of %d, again at %s, and nobody asked for it%s",
					h.describe(), before.at.Format(clockFormat), before.answer, r.at.Format(clockFormat), h.timeline())})
			}
		}
		if body, ok := bodies[r.key]; ok && body != r.body {
			out = append(out, rig.NewViolation(altered, "%s was sent at %s with other bytes than before under key %s", h.describe(), r.at.Format(clockFormat), r.key))
		}
		bodies[r.key] = r.body
	}
	return out
}

// stream is one stream of a route, as the target sees it.
type stream struct {
	numbers map[int][]*history
	passes  []span // the decisions to let it continue
	highest int    // the highest number that was sent
}

// hasPassed reports whether a number need not be waited for when a request is made: it was answered with success, or
// ended, or an operator let the stream continue without it.
func (s *stream) hasPassed(number int, r *request) bool {
	for _, h := range s.numbers[number] {
		if slices.ContainsFunc(h.requests, func(b *request) bool { return b.answer == http.StatusOK && !b.at.After(r.at) }) ||
			slices.ContainsFunc(h.endings, func(e ending) bool { return !e.from.After(r.at) }) {
			return true
		}
	}
	return slices.ContainsFunc(s.passes, func(p span) bool { return !p.from.After(r.at) })
}

// judge compares a request with the order of its stream. Requests come in the order of their times.
func (s *stream) judge(r *request, h *history) (out []violation) {
	switch {
	case r.Number < s.highest && !h.wasDecided(r.at):
		out = append(out, violation{Kind: disordered, Detail: fmt.Sprintf("%s, number %d of %s, was sent at %s, behind number %d, and nobody asked for it",
			h.describe(), r.Number, r.Order, r.at.Format(clockFormat), s.highest)})
	case r.Number > s.highest:
		for n := 1; n < r.Number; n++ {
			if !s.hasPassed(n, r) {
				out = append(out, violation{Kind: disordered, Detail: fmt.Sprintf("%s, number %d of %s, was sent at %s, and number %d had neither happened nor been given up",
					h.describe(), r.Number, r.Order, r.at.Format(clockFormat), n)})
				break
			}
		}
		s.highest = r.Number
	}
	return out
}

// compareReport compares what a command reports with its entries in the audit.
func (a *act) compareReport() (out []violation) {
	if a.action == "" || a.ExitCode != 0 || a.reported < 0 {
		return nil
	}
	switch n := len(a.decided[a.action]); {
	case n < a.reported:
		out = append(out, rig.NewViolation(undecided, "%s says that it decided %d, and the audit has %d", a, a.reported, n))
	case n > a.reported:
		out = append(out, rig.NewViolation(miscounted, "%s says that it decided %d, and the audit has %d", a, a.reported, n))
	}
	return out
}
