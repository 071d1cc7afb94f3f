package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/read"
)

// Scope selects the effects of a plan: effects and events by id, those that a filter takes,
// or, with All, everything at rest.
type Scope struct {
	read.DeadFilter

	// Run takes the effects of one run: of the operations of Source whose keys begin with it. Write it escaped, as recipes
	// do. See [AuditRequest].
	Run string `json:"run,omitempty"`

	// Label takes the effects of the events that have it. The row of a plan has its value only if this installation
	// stores the values of labels unhashed.
	Label *read.EventLabel `json:"label,omitempty"`

	// IDs are effects, or events with all their effects. The plan lists them in any state,
	// and says why it leaves some out. With a tenant, ids of other tenants count as unknown.
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

// IsZero reports whether nothing narrows the scope but IDs.
func (s *Scope) IsZero() bool { return s.DeadFilter.IsZero() && s.OfRun() == "" }

// OfRun names the run and the label that the scope is limited to; it is empty if there are none.
func (s *Scope) OfRun() string {
	var parts []string
	if s.Label != nil {
		parts = append(parts, "label "+s.Label.String())
	}
	if s.Run != "" {
		parts = append(parts, fmt.Sprintf("run %s of source %s", s.Run, s.Source))
	}
	return strings.Join(parts, " and ")
}

// withoutValue returns the scope without the value of its label. The value is content, and must not be stored where it
// cannot be erased.
func (s Scope) withoutValue(hashed bool) Scope {
	if s.Label != nil {
		s.Label = &read.EventLabel{Name: s.Label.Name, Hashed: hashed}
	}
	if s.Text != "" {
		s.Text = "…"
	}
	return s
}

func (s *Scope) check(o Options, judged bool) error {
	switch {
	case len(s.IDs) == 0 && s.IsZero() && !s.All:
		return fmt.Errorf("%w: %w", ErrScope, decide.ErrScope)
	case len(s.IDs) > 0 && (!s.anyTenant().IsZero() || s.OfRun() != "" || s.All), s.All && !s.IsZero():
		return fmt.Errorf("%w: ids, a filter and all exclude each other", ErrScope)
	case s.Run != "" && s.Source == "":
		return fmt.Errorf("%w: a run is one of a source of operations: name the source", ErrScope)
	case len(s.IDs) > MaxIDs:
		return fmt.Errorf("%w: at most %d ids", ErrScope, MaxIDs)
	case o.IncludeDone && !o.NewKey:
		return fmt.Errorf("%w: what has happened is replayed under a new key only: the old one would be recognised", ErrScope)
	case o.CarryOutShadow && (o.NewKey || o.IncludeShadow):
		return fmt.Errorf("%w: effects of shadow mode are evaluated again or carried out, and carried out under their own keys", ErrScope)
	case o.IncludeCalledAgain && len(s.IDs) != 1:
		return fmt.Errorf("%w: what a caller has called again is replayed one by one: name one effect by its id", ErrScope)
	case s.events(o) && !judged:
		return fmt.Errorf("%w: effects for events that have none need the configuration", ErrScope)
	}
	return nil
}

// anyTenant returns the filter without its tenant, because a tenant also narrows ids.
func (s *Scope) anyTenant() read.DeadFilter {
	f := s.DeadFilter
	f.Tenant = ""
	return f
}

// admitted returns the admission that the filter's reason names, or "".
func (s *Scope) admitted() string {
	switch s.Reason {
	case "unusable", "beyond_retention":
		return s.Reason
	}
	return ""
}

// events reports whether the plan looks for events without an effect.
func (s *Scope) events(o Options) bool { return o.NewRoutes || s.admitted() != "" }

// states returns the states that the plan of a filter reads. The plan lists the effects of
// these states that it leaves out. It reads settled effects, which are most of all effects,
// only if the options include them.
func (s *Scope) states(o Options) []string {
	states := []string{string(inbox.EffectDead), string(inbox.EffectIndeterminate)}
	if o.IncludeDone {
		states = append(states, string(inbox.EffectDone))
	}
	if len(o.skipped()) > 0 {
		states = append(states, string(inbox.EffectSkipped))
	}
	return states
}

// A run takes effects in this order: those of one sequence key one after another. Dead and
// indeterminate effects have a separate index.
const (
	scopeOrder = `
ORDER BY e.route_id, e.sequence_key_hash NULLS FIRST, e.sequence_number NULLS FIRST, e.id`

	scopeEffects = `
WHERE e.state IN ('dead', 'indeterminate') AND e.state = ANY (?::text[])`

	scopeSettledEffects = `
WHERE e.state = ANY (?::text[]) AND (e.state <> 'skipped' OR e.reason = ANY (?::text[]))`

	// With a label, the events that have it are found first, by the index of labels, and then their effects. OFFSET 0 keeps the planner
	// from beginning with all effects at rest, or with all events.
	effectsOfLabel = ` k CROSS JOIN LATERAL (SELECT e.* FROM effect e WHERE e.event_id = k.id OFFSET 0) e`
	eventsOfLabel  = ` k CROSS JOIN LATERAL (SELECT v.* FROM inbox_event v WHERE v.id = k.id OFFSET 0) v`

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

// These statements find the events for which a route may have no effect yet: those with a
// dead letter's admission, or all that a route may take. If the scope is ids, events that
// are dead letters are always included.
const (
	scopeEvents = `
JOIN source s ON s.id = v.source_id`

	scopeEventIDs = `
SELECT v.id
FROM inbox_event v
JOIN source s ON s.id = v.source_id
WHERE v.id = ANY ($1::uuid[]) AND NOT v.copied AND ($2 OR v.admission IN ('unusable', 'beyond_retention'))
    AND ($3::text = '' OR coalesce(v.tenant, s.tenant) = $3)
ORDER BY v.id`
)

// effects returns the statement that finds the effects of the scope. label is the search for its label, if it has one.
func (s *Scope) effects(o Options, label *read.LabelSearch) (sql string, args []any) {
	if len(s.IDs) > 0 {
		return scopeIDs, []any{s.IDs, s.Tenant}
	}
	states := s.states(o)
	var found row.Statement
	found.Add(`SELECT e.id FROM `)
	if label != nil {
		label.Events(&found, firstID(s.Since), firstID(s.Until), 0)
		found.Add(effectsOfLabel)
	} else {
		found.Add(`effect e`)
	}
	if slices.ContainsFunc(states, func(state string) bool { return inbox.EffectState(state).Settled() }) {
		found.Add(scopeSettledEffects, states, o.skipped())
	} else {
		found.Add(scopeEffects, states)
	}
	p := s.EffectPredicates()
	p.AddIf(s.Run != "", `(SELECT split_part(v.event_id, ':', 3) FROM inbox_event v WHERE v.id = e.event_id) = ?`, s.Run)
	return found.And(p).Add(scopeOrder).SQL()
}

// firstID is the smallest id made at or after an instant; zero for none.
func firstID(at time.Time) inbox.ID {
	if at.IsZero() {
		return inbox.ID{}
	}
	return inbox.FirstID(at)
}

// newEvents returns the statement that finds the events of the scope.
func (s *Scope) newEvents(o Options, label *read.LabelSearch) (sql string, args []any) {
	if len(s.IDs) > 0 {
		return scopeEventIDs, []any{s.IDs, o.NewRoutes, s.Tenant}
	}
	var p row.Predicates
	if admitted := s.admitted(); admitted != "" {
		p.Add(`v.admission = ? AND v.discarded_at IS NULL`, admitted)
	} else {
		p.Add(`v.admission IN ('ok', 'unrouted')`)
	}
	p.Add(`NOT v.copied`) // the database from which the source moved has the event
	p.AddIf(s.Type != "", `v.type = ?`, s.Type)
	p.AddIf(s.EventID != "", `v.event_id = ?`, s.EventID)
	var found row.Statement
	s.addEvents(&found, label, p)
	return found.Add(` ORDER BY v.id`).SQL()
}

// addEvents puts the events v of the scope into a statement, narrowed by its source, run, time and tenant, and by p.
func (s *Scope) addEvents(found *row.Statement, label *read.LabelSearch, p row.Predicates) {
	found.Add(`SELECT v.id FROM `)
	if label != nil {
		label.Events(found, firstID(s.Since), firstID(s.Until), 0)
		found.Add(eventsOfLabel)
	} else {
		found.Add(`inbox_event v`)
	}
	p.AddIf(s.Source != "", `s.name = ?`, s.Source)
	p.AddIf(s.Run != "", `split_part(v.event_id, ':', 3) = ?`, s.Run)
	p.AddIf(!s.Since.IsZero(), `v.id >= ?`, inbox.FirstID(s.Since))
	p.AddIf(!s.Until.IsZero(), `v.id < ?`, inbox.FirstID(s.Until))
	p.AddIf(s.Tenant != "", `coalesce(v.tenant, s.tenant) = ?`, s.Tenant)
	found.Add(scopeEvents).Where(p)
}
