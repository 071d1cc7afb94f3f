package read

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// EventFilter narrows a list of events. A zero field does not narrow it.
type EventFilter struct {
	Source string `json:"source,omitempty"`
	// Type is the exact type.
	Type string `json:"type,omitempty"`
	// State takes events that have an effect in this state. The admissions ok, unusable,
	// beyond_retention and unrouted take events with this admission.
	State string `json:"state,omitempty"`
	// Route takes events that have an effect of this route.
	Route string `json:"route,omitempty"`
	// EventID is the exact event id of the sender.
	EventID string `json:"event_id,omitempty"`
	// Label takes events that have this label: see [inbox.Source.Labels]. If there is a keyring, it requires [Lister.WithKeyring].
	Label inbox.Label `json:"label,omitzero"`
	// Tenant takes events of this tenant. An event that was recorded without a tenant belongs to
	// the tenant that its source has now.
	Tenant string `json:"tenant,omitempty"`
	// Since and Until limit the time of receipt: from Since on, and before Until.
	Since time.Time `json:"-"`
	Until time.Time `json:"-"`
	// Cursor is Next of the previous page; empty is the first page.
	Cursor string `json:"-"`
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int `json:"-"`
}

// EventRow is one line of a list of events.
type EventRow struct {
	ID         inbox.ID  `json:"id"`
	Source     string    `json:"source"`
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	ReceivedAt time.Time `json:"received_at"`
	Admission  string    `json:"admission"`
	// Deliveries is at least 1. Some of several simultaneous deliveries may not be counted,
	// because none waits for the event's row.
	Deliveries int `json:"deliveries"`
	Conflicts  int `json:"conflicts"`
	// EffectStates counts the event's effects by state, at most a thousand of them in a list. MoreEffects says that there are
	// more.
	EffectStates StateCounts `json:"effect_states"`
	MoreEffects  bool        `json:"more_effects,omitempty"`
	// Tenant is the tenant of the event; empty if it has none.
	Tenant string `json:"tenant,omitempty"`
	// TraceID is the trace of the delivery in a tracing system, in 32 hexadecimal digits. It is absent if the sender gave none
	// and nothing was traced.
	TraceID string `json:"trace_id,omitempty"`
}

// StateCount is how many effects are in one state.
type StateCount struct {
	State string `json:"state"`
	Count int    `json:"count"`
}

// StateCounts counts effects by state. Each state is there once, and only if an effect is in it.
type StateCounts []StateCount

// String returns the counts as one line, such as "done 2, dead 1".
func (c StateCounts) String() string {
	var b strings.Builder
	for i, n := range c {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d", n.State, n.Count)
	}
	return b.String()
}

// ByState returns the counts by the name of the state.
func (c StateCounts) ByState() map[string]int {
	out := make(map[string]int, len(c))
	for _, n := range c {
		out[n.State] = n.Count
	}
	return out
}

// traceID is the trace id of event v: see [inbox.TraceID].
const traceID = `coalesce(substr(v.traceparent, 4, 32), '')`

// The statements of the list of events. They first find the rows of the page in the table of events. They read the
// joined tables and the states of the effects only for those rows. An event may have a hundred thousand effects if it has
// a list, so that at most a thousand are counted.
const (
	selectEvents = `
SELECT v.id, s.name, v.event_id, v.type, v.received_at, v.admission, v.deliveries, v.conflicts,
    coalesce(f.states, '[]'), coalesce(f.more, false), coalesce(v.tenant, s.tenant), ` + traceID + `
FROM (
    SELECT v.id, v.source_id, v.event_id, v.type, v.received_at, v.admission, v.deliveries, v.conflicts, v.tenant, v.traceparent
    FROM `
	joinEvents = `
    ORDER BY v.id DESC
    LIMIT ?) v
JOIN source s ON s.id = v.source_id
LEFT JOIN LATERAL (
    SELECT json_agg(n ORDER BY n.state) AS states, sum(n.count) > 1000 AS more
    FROM (
        SELECT x.state, count(*) AS count
        FROM (SELECT e.state FROM effect e WHERE e.event_id = v.id LIMIT 1001) x
        GROUP BY x.state) n
) f ON true
ORDER BY v.id DESC`

	// A window ends at the last of these rows.
	edgeOfEvents = ` ORDER BY v.id DESC OFFSET ? - 1 LIMIT 1`

	// There is one event with a sender's id for each source. OFFSET 0 keeps the planner from walking all events.
	eventsBySender = `(SELECT v.* FROM inbox_event v WHERE v.event_id = ? AND v.source_id = ANY (ARRAY(`

	// If sources have few events, the index of their keys finds them without a walk of the table.
	countEventsBySource = `SELECT count(*) FROM (SELECT FROM inbox_event v WHERE v.source_id = ANY (ARRAY(`
	eventsBySource      = `(SELECT v.* FROM inbox_event v WHERE v.source_id = ANY (ARRAY(`
)

// notCopied leaves out the keys of events that another database has.
const notCopied = `NOT v.copied`

// ofTenant narrows events v to a tenant.
const ofTenant = `coalesce(v.tenant, (SELECT s.tenant FROM source s WHERE s.id = v.source_id)) = ?`

// predicates returns the filter's conditions on an event v, except those on its time. The planner cannot turn any of them
// into a walk of all effects of a state or of a route.
func (f *EventFilter) predicates(tenant string) (p row.Predicates) {
	p.AddIf(f.Source != "", `v.source_id = (SELECT s.id FROM source s WHERE s.name = ?)`, f.Source)
	p.AddIf(f.Type != "", `v.type = ?`, f.Type)
	switch {
	case f.State == "":
	case f.admitted():
		p.Add(`v.admission = ?`, f.State)
	default:
		p.Add(`(SELECT true FROM effect e WHERE e.event_id = v.id AND e.state || '' = ? LIMIT 1)`, f.State)
	}
	p.AddIf(f.Route != "", `(SELECT true FROM effect e WHERE e.event_id = v.id AND e.route_id = ANY (ARRAY(SELECT r.id FROM route r WHERE r.name = ?)) LIMIT 1)`, f.Route)
	p.AddIf(f.Tenant != "", ofTenant, f.Tenant)
	p.AddIf(tenant != "", ofTenant, tenant)
	return p
}

// admitted reports whether the state is an admission of events, and not a state of effects.
func (f *EventFilter) admitted() bool {
	switch f.State {
	case "ok", "unusable", "beyond_retention", "unrouted":
		return true
	}
	return false
}

// addSources adds the sources that the events of the filter can have to a statement. It reports whether it narrowed them.
func (f *EventFilter) addSources(s *row.Statement) bool {
	switch {
	case f.Source != "":
		s.Add(`SELECT s.id FROM source s WHERE s.name = ?`, f.Source)
	case f.Route != "":
		s.Add(`SELECT r.source_id FROM route r WHERE r.name = ?`, f.Route)
	default:
		s.Add(`SELECT s.id FROM source s`)
		return false
	}
	return true
}

// Events returns one page of events, newest first. It returns [ErrCursor] for a cursor of another
// list or filter.
func (l *Lister) Events(ctx context.Context, f EventFilter) (Page[EventRow], error) {
	page, err := l.events(ctx, f)
	if err != nil {
		return page, fmt.Errorf("listing events: %w", err)
	}
	return page, nil
}

func (l *Lister) events(ctx context.Context, f EventFilter) (page Page[EventRow], err error) {
	w := listWalk[EventRow, inbox.ID]{cursor: newListCursor[inbox.ID]("events", f), limit: f.Limit, place: func(r *EventRow) inbox.ID { return r.ID }}
	if w.from, err = w.cursor.begin(f.Cursor, idSince(f.Until)); err != nil {
		return page, err
	}
	since, narrow := idSince(f.Since), f.predicates(l.tenant)

	// read reads the events among those that from adds to a statement.
	read := func(ctx context.Context, from func(*row.Statement), p row.Predicates, limit int) ([]EventRow, error) {
		var s row.Statement
		s.Add(selectEvents)
		from(&s)
		s.Where(append(slices.Clone(p), row.Is(notCopied))).Add(joinEvents, limit)
		return collect(ctx, l, &s, pgx.RowToStructByPos[EventRow])
	}
	if f.EventID != "" {
		w.read = func(ctx context.Context, from, _ inbox.ID, limit int) ([]EventRow, error) {
			return read(ctx, func(s *row.Statement) {
				s.Add(eventsBySender, f.EventID)
				f.addSources(s)
				s.Add(`)) OFFSET 0) v`)
			}, append(eventsBetween(since, from), narrow...), limit)
		}
		return w.page(ctx, l.search())
	}
	if f.Label != (inbox.Label{}) {
		if err := l.walkLabel(ctx, &w, f.Label, since, narrow, read); err != nil {
			return page, err
		}
		return w.page(ctx, l.search())
	}
	all := row.Is(`inbox_event v`)
	var walked row.Predicates // conditions that have a separate index
	walked.AddIf(f.State == "unusable" || f.State == "beyond_retention", `v.admission IN ('unusable', 'beyond_retention')`)
	w.read = func(ctx context.Context, from, to inbox.ID, limit int) ([]EventRow, error) {
		return read(ctx, all, append(append(eventsBetween(later(since, to), from), walked...), narrow...), limit)
	}
	if len(narrow) == 0 {
		return w.page(ctx, l.search())
	}
	w.edge = func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
		var s row.Statement
		s.Add(`SELECT v.id FROM inbox_event v`).Where(append(eventsBetween(since, from), walked...)).Add(edgeOfEvents, rows)
		return l.edge(ctx, &s)
	}
	rare := rareStates(f.State)
	w.fewFirst = rare != nil
	w.few = func(ctx context.Context, from inbox.ID, limit int) ([]EventRow, bool, error) {
		range_ := append(eventsBetween(since, from), narrow...)
		if rare != nil {
			var s row.Statement
			if whole, err := l.isFew(ctx, rare.count(&s)); whole || err != nil {
				if err != nil {
					return nil, false, err
				}
				// PostgreSQL looks up the ids from the newest on, as many as the page needs.
				rows, err := read(ctx, all, range_.With(func(s *row.Statement) {
					s.Add(`v.id = ANY (ARRAY(`)
					rare.events(s)
					s.Add(`))`)
				}), limit)
				return rows, true, err
			}
		}
		var s row.Statement
		s.Add(countEventsBySource)
		if !f.addSources(&s) {
			return nil, false, nil
		}
		s.Add(`)) ORDER BY v.source_id, v.event_id LIMIT ?) c`, few+1)
		if whole, err := l.isFew(ctx, &s); !whole || err != nil {
			return nil, false, err
		}
		rows, err := read(ctx, func(s *row.Statement) {
			s.Add(eventsBySource)
			f.addSources(s)
			s.Add(`)) ORDER BY v.source_id, v.event_id LIMIT ?) v`, 2*few)
		}, range_, limit)
		return rows, true, err
	}
	return w.page(ctx, l.search())
}
