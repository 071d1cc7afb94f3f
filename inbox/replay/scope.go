package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Scope says what a plan is about: effects and events by id, or what a
// filter takes, or by name all that is dead.
type Scope struct {
	inbox.DeadFilter

	// IDs are effects, or events with all their effects. They are planned whatever
	// their state: the plan says why it leaves some out. With a tenant, what is another's
	// is not there.
	IDs []inbox.ID `json:"-"`

	// Named is how many IDs there were.
	Named int `json:"ids,omitempty"`

	// All takes everything at rest.
	All bool `json:"all,omitempty"`
}

// MaxIDs bounds [Scope.IDs].
const MaxIDs = 1_000_000

// ErrScope is returned for a plan whose scope or options make no sense.
var ErrScope = errors.New("a plan needs a scope that can be told")

func (s *Scope) check(o Options, judged bool) error {
	switch {
	case len(s.IDs) == 0 && s.IsZero() && !s.All:
		return fmt.Errorf("%w: %w", ErrScope, inbox.ErrScope)
	case len(s.IDs) > 0 && (!s.anyTenant().IsZero() || s.All), s.All && !s.IsZero():
		return fmt.Errorf("%w: ids, a filter and all exclude each other", ErrScope)
	case len(s.IDs) > MaxIDs:
		return fmt.Errorf("%w: at most %d ids", ErrScope, MaxIDs)
	case o.IncludeDone && !o.NewKey:
		return fmt.Errorf("%w: what has happened is replayed under a new key only: the old one would be recognised", ErrScope)
	case o.IncludeCalledAgain && len(s.IDs) != 1:
		return fmt.Errorf("%w: what a caller has called again is replayed one by one: name one effect by its id", ErrScope)
	case s.events(o) && !judged:
		return fmt.Errorf("%w: effects for events that have none need the configuration", ErrScope)
	}
	return nil
}

// anyTenant is the filter without its tenant, which also narrows ids.
func (s *Scope) anyTenant() inbox.DeadFilter {
	f := s.DeadFilter
	f.Tenant = ""
	return f
}

// admitted is the admission that the filter's reason names, if it names one.
func (s *Scope) admitted() string {
	switch s.Reason {
	case "unusable", "beyond_retention":
		return s.Reason
	}
	return ""
}

// events says that the plan looks for events without an effect.
func (s *Scope) events(o Options) bool { return o.NewRoutes || s.admitted() != "" }

// states are the states that a filter's plan looks at. What it leaves out of
// them it says; the settled ones, which are most, only if they are asked for.
func (s *Scope) states(o Options) []string {
	states := []string{string(inbox.EffectDead), string(inbox.EffectIndeterminate)}
	if o.IncludeDone {
		states = append(states, string(inbox.EffectDone))
	}
	if o.IncludeDiscarded {
		states = append(states, string(inbox.EffectSkipped))
	}
	return states
}

// In the order in which they are carried out: the effects of a sequence key one after
// another. Effects at rest have a separate index.
const (
	scopeOrder = `
ORDER BY e.route_id, e.sequence_key_hash NULLS FIRST, e.sequence_number NULLS FIRST, e.id`

	scopeEffects = `
SELECT e.id
FROM effect e
WHERE e.state IN ('dead', 'indeterminate') AND e.state = ANY (?::text[])`

	scopeSettledEffects = `
SELECT e.id
FROM effect e
WHERE e.state = ANY (?::text[]) AND (e.state <> 'skipped' OR e.reason = 'discarded')`

	scopeIDs = `
SELECT e.id
FROM effect e
WHERE e.id IN (
    SELECT x.id FROM effect x WHERE x.id = ANY ($1::uuid[])
    UNION
    SELECT x.id FROM effect x WHERE x.event_id = ANY ($1::uuid[]))
    AND ($2::text = '' OR EXISTS (
            SELECT FROM inbox_event v JOIN source s ON s.id = v.source_id WHERE v.id = e.event_id AND coalesce(v.tenant, s.tenant) = $2)
        AND NOT EXISTS (
            SELECT FROM effect o JOIN inbox_event v ON v.id = o.event_id JOIN source s ON s.id = v.source_id
            WHERE o.id = e.duplicate_of AND coalesce(v.tenant, s.tenant) <> $2))` + scopeOrder

	scopeMissing = `
SELECT a.id
FROM unnest($1::uuid[]) AS a (id)
WHERE NOT EXISTS (
        SELECT FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN source s ON s.id = v.source_id
        WHERE e.id = a.id AND ($2::text = '' OR coalesce(v.tenant, s.tenant) = $2))
    AND NOT EXISTS (
        SELECT FROM inbox_event v JOIN source s ON s.id = v.source_id
        WHERE v.id = a.id AND ($2::text = '' OR coalesce(v.tenant, s.tenant) = $2))`
)

// The events in which routes are looked for that have no effect there: those of a
// dead letter's admission, or any that a route may take. Of ids, dead letters are
// meant in any case.
const (
	scopeEvents = `
SELECT v.id
FROM inbox_event v
JOIN source s ON s.id = v.source_id`

	scopeEventIDs = `
SELECT v.id
FROM inbox_event v
JOIN source s ON s.id = v.source_id
WHERE v.id = ANY ($1::uuid[]) AND ($2 OR v.admission IN ('unusable', 'beyond_retention'))
    AND ($3::text = '' OR coalesce(v.tenant, s.tenant) = $3)
ORDER BY v.id`
)

// effects gives the statement that finds the effects of the scope.
func (s *Scope) effects(o Options) (sql string, args []any) {
	if len(s.IDs) > 0 {
		return scopeIDs, []any{s.IDs, s.Tenant}
	}
	states := s.states(o)
	var found row.Statement
	if slices.ContainsFunc(states, func(state string) bool { return inbox.EffectState(state).Settled() }) {
		found.Add(scopeSettledEffects, states)
	} else {
		found.Add(scopeEffects, states)
	}
	return found.And(s.EffectPredicates()).Add(scopeOrder).SQL()
}

// newEvents gives the statement that finds the events of the scope.
func (s *Scope) newEvents(o Options) (sql string, args []any) {
	if len(s.IDs) > 0 {
		return scopeEventIDs, []any{s.IDs, o.NewRoutes, s.Tenant}
	}
	var p row.Predicates
	if admitted := s.admitted(); admitted != "" {
		p.Add(`v.admission = ? AND v.discarded_at IS NULL`, admitted)
	} else {
		p.Add(`v.admission IN ('ok', 'unrouted')`)
	}
	p.AddIf(s.Source != "", `s.name = ?`, s.Source)
	p.AddIf(s.Type != "", `v.type = ?`, s.Type)
	p.AddIf(s.EventID != "", `v.event_id = ?`, s.EventID)
	p.AddIf(!s.Since.IsZero(), `v.id >= ?`, inbox.FirstID(s.Since))
	p.AddIf(!s.Until.IsZero(), `v.id < ?`, inbox.FirstID(s.Until))
	p.AddIf(s.Tenant != "", `coalesce(v.tenant, s.tenant) = ?`, s.Tenant)
	var found row.Statement
	found.Add(scopeEvents)
	return found.Where(p).Add(` ORDER BY v.id`).SQL()
}
