package kills

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The kinds of violation that only this campaign can find. The others are the names of invariants.
const (
	Resent rig.Kind = "resent" // sent again within one attempt
	Early  rig.Kind = "early"  // another worker took it over before the lease had ended

	// Misstated: an effect that was never in doubt is indeterminate, or was not sent once.
	Misstated rig.Kind = "misstated"

	// Unexplained: indeterminate for a reason that no fault of the campaign causes.
	Unexplained rig.Kind = "unexplained"
)

// Evidence is what the invariants compare, and what only this campaign knows.
type Evidence struct {
	invariant.Evidence

	// NeverInDoubt has the events whose effects were never in doubt, because every fault struck their workers before
	// anything was sent.
	NeverInDoubt map[string]bool

	// Early has the events of which another worker ended an attempt before its lease had ended.
	Early []string

	// Waited has the events whose attempt reports a timeout and lasted at least as long as the target's timeout.
	Waited []string
}

const (
	readAttempts = `
SELECT DISTINCT v.event_id FROM effect_attempt a JOIN effect e ON e.id = a.effect_id JOIN inbox_event v ON v.id = e.event_id
WHERE `
	readEarly  = readAttempts + `a.outcome = 'lost' AND a.finished_at < a.started_at + $1::interval`
	readWaited = readAttempts + `a.reason = 'timeout' AND a.finished_at >= a.started_at + $1::interval`
)

// readEvents reads the events of which an attempt took less, or more, than a time.
func readEvents(ctx context.Context, db rig.Querier, sql string, than time.Duration) ([]string, error) {
	rows, err := db.Query(ctx, sql, than)
	if err != nil {
		return nil, fmt.Errorf("reading attempts: %w", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading attempts: %w", err)
	}
	return events, nil
}

// Check checks the invariants, and what follows from the exact moment of each fault.
func Check(e *Evidence) []rig.Violation {
	violations := invariant.Violations(invariant.Check(&e.Evidence))
	add := func(kind rig.Kind, event, format string, args ...any) {
		v := rig.NewViolation(kind, format, args...)
		v.Event = event
		violations = append(violations, v)
	}
	for _, event := range e.Early {
		add(Early, event, "was taken over before its lease had ended")
	}
	requests := e.Routes[0].Requests
	var stalled []*invariant.Effect
	for i := range e.Effects {
		effect := &e.Effects[i]
		got := requests[effect.Event]
		for attempt, n := range got.Attempts {
			if n > 1 && Route(effect.Route) != Mail {
				add(Resent, effect.Event, "was sent %d times in attempt %s", n, attempt)
			}
		}
		state := inbox.EffectState(effect.State)
		switch {
		case state != inbox.EffectIndeterminate || isExplained(effect, &got):
		case effect.Reason == reasons.Timeout && slices.Contains(e.Waited, effect.Event):
			stalled = append(stalled, effect)
		default:
			add(Unexplained, effect.Event, "is indeterminate (%s) and met no fault that would leave its end unknown; %d requests arrived", effect.Reason, got.Complete)
		}
		if e.NeverInDoubt[effect.Event] && state != inbox.EffectDuplicate && (state == inbox.EffectIndeterminate || Route(effect.Route) == Once && got.Complete != 1) {
			add(Misstated, effect.Event, "is %s, was never in doubt, and arrived %d times", state, got.Complete)
		}
	}
	if len(stalled) > max(1, len(e.Effects)/stalledShare) {
		for _, effect := range stalled {
			add(Unexplained, effect.Event, "is one of %d that are indeterminate (timeout) although the target answered", len(stalled))
		}
	}
	slices.SortFunc(violations, func(a, b rig.Violation) int { return strings.Compare(a.String(), b.String()) })
	return violations
}

// stalledShare is the part of all effects that may time out without a fault of the campaign: one in so many. A machine that is
// busy with other work can stop a worker for longer than a target's timeout, and the worker then cannot know the answer. Workers
// that do not read their answers would time out far more often.
const stalledShare = 500

// isExplained reports whether one of the campaign's faults explains that the outcome of the effect is unknown. Either
// the worker was killed, paused or cut off while it had the effect, or the target had the whole request and answered
// 503, closed the connection or stalled.
func isExplained(e *invariant.Effect, got *ledger.Requests) bool {
	switch e.Reason {
	case string(reasons.LeaseExpired), reasons.Stopped:
		return true
	case reasons.Status503:
		return got.Complete == 1
	case reasons.Connection, reasons.Timeout, reasons.Reply:
		return got.Answered < max(got.Complete, 1)
	}
	return false
}
