package kills

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Effect is an effect as the database has it at the end.
type Effect struct {
	Event    string
	Route    Route
	State    inbox.EffectState
	Reason   string
	Key      string
	Attempts int // rows of effect_attempt
	Early    int // attempts that another worker ended before their lease had
	Applied  int // rows of the function in the database
}

const readEffects = `
SELECT v.event_id, r.name, e.state, coalesce(e.reason, ''), e.idempotency_key,
    (SELECT count(*) FROM effect_attempt a WHERE a.effect_id = e.id),
    (SELECT count(*) FROM effect_attempt a WHERE a.effect_id = e.id AND a.outcome = 'lost' AND a.finished_at < a.started_at + $1::interval),
    (SELECT count(*) FROM kills_applied k WHERE k.event_id = v.event_id)
FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN route r ON r.id = e.route_id`

// Read reads the effects. The search_path of the connection must be the campaign's schema.
func Read(ctx context.Context, db rig.Querier) ([]Effect, error) {
	rows, err := db.Query(ctx, readEffects, lease)
	if err != nil {
		return nil, fmt.Errorf("reading effects: %w", err)
	}
	effects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Effect])
	if err != nil {
		return nil, fmt.Errorf("reading effects: %w", err)
	}
	return effects, nil
}

// The kinds of violation.
const (
	Lost       rig.Kind = "lost"       // done, and its target never received it
	Doubled    rig.Kind = "doubled"    // more than once, or under more than one key
	Altered    rig.Kind = "altered"    // other bytes than were received, or than in another attempt
	Resent     rig.Kind = "resent"     // sent again within one attempt
	Misstated  rig.Kind = "misstated"  // an unknown outcome is not indeterminate
	Early      rig.Kind = "early"      // another worker took it over before the lease had ended
	Unfinished rig.Kind = "unfinished" // not at rest when everything else was

	// Unexplained: indeterminate for a reason that no fault of the campaign causes.
	Unexplained rig.Kind = "unexplained"
)

// Check compares what was delivered and what the targets received with the effects. The effects of events that were
// never in doubt must not be indeterminate.
func Check(sent map[string]SentEvent, certain map[string]bool, effects []Effect, heard map[string]TargetRequests) []rig.Violation {
	c := &checker{}
	known := map[string]bool{}
	owners := map[string]int{} // of the key of each order
	for i := range effects {
		e := &effects[i]
		if known[e.Event] {
			c.add(Doubled, e, "has two effects")
		}
		known[e.Event] = true
		if e.Early > 0 {
			c.add(Early, e, "was taken over before its lease had ended")
		}
		h := heard[e.Event]
		order := sent[e.Event].Order
		owners[order] += 0
		if e.State == inbox.EffectDuplicate {
			c.duplicate(e, &h)
			continue
		}
		if owners[order]++; owners[order] > 1 {
			c.add(Doubled, e, "is about the same order as another effect, and is not its duplicate")
		}
		if certain[e.Event] && (e.State == inbox.EffectIndeterminate || e.Route == Once && h.Complete != 1) {
			c.add(Misstated, e, "was never in doubt, and arrived %d times", h.Complete)
		}
		switch e.Route {
		case Idempotent:
			c.idempotent(e, &h, sent[e.Event].Body)
		case Once, Mail:
			c.once(e, &h, sent[e.Event].Body)
		case Table:
			c.table(e)
		}
	}
	for order, n := range owners {
		if n == 0 {
			c.violations = append(c.violations, rig.Violation{Kind: Lost, Detail: order + " has only effects that are duplicates"})
		}
	}
	for event := range sent {
		if !known[event] {
			c.violations = append(c.violations, rig.Violation{Kind: Lost, Detail: event + " was acknowledged and has no effect"})
		}
	}
	for event := range heard {
		if _, ok := sent[event]; !ok {
			c.violations = append(c.violations, rig.Violation{Kind: Doubled, Detail: event + " was never sent to us"})
		}
	}
	slices.SortFunc(c.violations, func(a, b rig.Violation) int { return strings.Compare(a.String(), b.String()) })
	return c.violations
}

type checker struct{ violations []rig.Violation }

func (c *checker) add(kind rig.Kind, e *Effect, format string, args ...any) {
	detail := fmt.Sprintf("%s (%s, %s %s after %d attempts) %s", e.Event, e.Route, e.State, e.Reason, e.Attempts, fmt.Sprintf(format, args...))
	c.violations = append(c.violations, rig.Violation{Kind: kind, Detail: detail})
}

// idempotent checks an effect at a target that deduplicates: it is done, under one key and with the same bytes.
func (c *checker) idempotent(e *Effect, h *TargetRequests, body []byte) {
	switch {
	case e.State != inbox.EffectDone:
		c.add(Unfinished, e, "is not done")
	case h.Answered == 0:
		c.add(Lost, e, "is done and was never answered with success")
	}
	c.sameKeyAndBytes(e, h, body)
}

// once checks an effect at a target that cannot deduplicate: it arrived at most once, and is indeterminate if its
// outcome is unknown.
func (c *checker) once(e *Effect, h *TargetRequests, body []byte) {
	switch e.State {
	case inbox.EffectDone:
		switch {
		case h.Complete == 0:
			c.add(Lost, e, "never arrived")
		case h.Answered < h.Complete:
			c.add(Misstated, e, "was not answered to the end")
		}
	case inbox.EffectIndeterminate:
		if !isExplained(e, h) {
			c.add(Unexplained, e, "met no fault that would leave its end unknown; %d requests arrived", h.Complete)
		}
	default:
		c.add(Unfinished, e, "is neither done nor indeterminate")
	}
	if h.Complete > 1 {
		c.add(Doubled, e, "arrived %d times", h.Complete)
	}
	c.sameKeyAndBytes(e, h, body)
}

// isExplained reports whether one of the campaign's faults explains that the outcome of the effect is unknown. Either
// the worker was killed, paused or cut off while it had the effect, or the target had the whole request and answered
// 503, closed the connection or stalled.
func isExplained(e *Effect, h *TargetRequests) bool {
	switch e.Reason {
	case string(inbox.ReasonLeaseExpired), reasons.Stopped:
		return true
	case reasons.Status503:
		return h.Complete == 1
	case reasons.Connection, reasons.Timeout, reasons.Reply:
		return h.Answered < max(h.Complete, 1)
	}
	return false
}

// duplicate checks an effect that is the duplicate of another one: it did not happen.
func (c *checker) duplicate(e *Effect, h *TargetRequests) {
	if !e.Route.HasKey() {
		c.add(Misstated, e, "is of a route without a key")
	}
	if h.Complete > 0 || e.Applied > 0 {
		c.add(Doubled, e, "arrived %d times and was applied %d times", h.Complete, e.Applied)
	}
}

func (c *checker) table(e *Effect) {
	if e.State != inbox.EffectDone {
		c.add(Unfinished, e, "is not done")
	}
	switch {
	case e.Applied == 0:
		c.add(Lost, e, "was not applied")
	case e.Applied > 1:
		c.add(Doubled, e, "was applied %d times", e.Applied)
	}
}

// sameKeyAndBytes checks that every request has the effect's own key and the received bytes, and that no attempt makes
// two.
func (c *checker) sameKeyAndBytes(e *Effect, h *TargetRequests, body []byte) {
	for key := range h.Keys {
		if e.Route != Mail && key != e.Key {
			c.add(Doubled, e, "arrived under another key")
		}
	}
	for sum := range h.Bodies {
		if e.Route != Mail && sum != sha256.Sum256(body) {
			c.add(Altered, e, "arrived with other bytes")
		}
	}
	if e.Route == Mail && (len(h.Keys) > 1 || len(h.Bodies) > 1 || h.Keys[""] > 0) {
		c.add(Altered, e, "is %d different messages", max(len(h.Keys), len(h.Bodies)))
	}
	for attempt, n := range h.Attempts {
		if n > 1 {
			c.add(Resent, e, "was sent %d times in attempt %s", n, attempt)
		}
	}
}
