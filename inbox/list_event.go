package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// EventFilter narrows a list of events; a zero field does not.
type EventFilter struct {
	Source string `json:"source,omitempty"`
	// Type is exact.
	Type string `json:"type,omitempty"`
	// State takes events that have an effect in it, or, for unusable,
	// beyond_retention and unrouted, events so admitted.
	State string `json:"state,omitempty"`
	// Route takes events that have an effect of it.
	Route string `json:"route,omitempty"`
	// EventID is the sender's, exact.
	EventID string `json:"event_id,omitempty"`
	// Label takes events that have it: see [Source.Labels]. It needs [Lister.WithKeyring] where there is a keyring.
	Label Label `json:"label,omitzero"`
	// Tenant is who the events belong to. An event that was recorded without one belongs to the
	// tenant that its source has now.
	Tenant string `json:"tenant,omitempty"`
	// Since and Until are the earliest receipt and the end of the receipts.
	Since time.Time `json:"-"`
	Until time.Time `json:"-"`
	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string `json:"-"`
	// Before, for callers that have no cursor, is the last ID of the page before this one.
	Before ID `json:"-"`
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int `json:"-"`
}

// EventRow is one line of a list of events.
type EventRow struct {
	ID         ID        `json:"id"`
	Source     string    `json:"source"`
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	ReceivedAt time.Time `json:"received_at"`
	Admission  string    `json:"admission"`
	// Deliveries is at least 1. Of deliveries that come at the same moment some may not be
	// counted, since none waits for the event's row.
	Deliveries int `json:"deliveries"`
	Conflicts  int `json:"conflicts"`
	// Effects counts the event's effects by state, such as "done 2, dead 1".
	Effects string `json:"effects"`
	// Tenant is who the event belongs to; empty is nobody in particular.
	Tenant string `json:"tenant,omitempty"`
}

// The statements of the list of events. The rows of the page are found first, on the event alone: what is joined to
// them, and the states of their effects, are read for the rows of the page only. An event whose effects are the items of
// a list may have a hundred thousand; of those, a thousand are counted.
const (
	selectEvents = `
SELECT v.id, s.name, v.event_id, v.type, v.received_at, v.admission, v.deliveries, v.conflicts,
    coalesce(f.states, ''), coalesce(v.tenant, s.tenant)
FROM (
    SELECT v.id, v.source_id, v.event_id, v.type, v.received_at, v.admission, v.deliveries, v.conflicts, v.tenant
    FROM `
	joinEvents = `
    ORDER BY v.id DESC
    LIMIT ?) v
JOIN source s ON s.id = v.source_id
LEFT JOIN LATERAL (
    SELECT string_agg(n.state || ' ' || n.count, ', ' ORDER BY n.state) || CASE WHEN sum(n.count) >= 1000 THEN ', and more' ELSE '' END AS states
    FROM (
        SELECT x.state, count(*) AS count
        FROM (SELECT e.state FROM effect e WHERE e.event_id = v.id LIMIT 1000) x
        GROUP BY x.state) n
) f ON true
ORDER BY v.id DESC`

	// Where a window ends: the last of some rows.
	edgeOfEvents = ` ORDER BY v.id DESC OFFSET ? - 1 LIMIT 1`

	// The events of a sender's id are one for each source. OFFSET 0 keeps the planner from walking all events for them.
	eventsBySender = `(SELECT v.* FROM inbox_event v WHERE v.event_id = ? AND v.source_id = ANY (ARRAY(`

	// Events of sources that have few, from the index of their keys: the table is not walked for them.
	countEventsBySource = `SELECT count(*) FROM (SELECT FROM inbox_event v WHERE v.source_id = ANY (ARRAY(`
	eventsBySource      = `(SELECT v.* FROM inbox_event v WHERE v.source_id = ANY (ARRAY(`
)

// ofTenant narrows events v to a tenant.
const ofTenant = `coalesce(v.tenant, (SELECT s.tenant FROM source s WHERE s.id = v.source_id)) = ?`

// predicates are what the filter asks of an event v beside its place in the list. None of them can be turned by the
// planner into a walk of all effects of a state or of a route.
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

// admitted reports whether the state is one in which events are admitted, and not one of effects.
func (f *EventFilter) admitted() bool {
	switch f.State {
	case "ok", "unusable", "beyond_retention", "unrouted":
		return true
	}
	return false
}

// addSources appends the sources that the events of the filter can be of, and reports whether those are not all.
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

// Events gives one page of events, newest first. It returns [ErrCursor] for a cursor of another
// list or filter.
func (l *Lister) Events(ctx context.Context, f EventFilter) (Page[EventRow], error) {
	page, err := l.events(ctx, f)
	if err != nil {
		return page, fmt.Errorf("listing events: %w", err)
	}
	return page, nil
}

func (l *Lister) events(ctx context.Context, f EventFilter) (page Page[EventRow], err error) {
	w := listWalk[EventRow, ID]{cursor: newListCursor[ID]("events", f), limit: f.Limit, place: func(r *EventRow) ID { return r.ID }}
	if w.from, err = w.cursor.begin(f.Cursor, f.Before, idSince(f.Until)); err != nil {
		return page, err
	}
	since, narrow := idSince(f.Since), f.predicates(l.tenant)

	// read gives the events among those that from puts into a statement.
	read := func(ctx context.Context, from func(*row.Statement), p row.Predicates, limit int) ([]EventRow, error) {
		var s row.Statement
		s.Add(selectEvents)
		from(&s)
		s.Where(p).Add(joinEvents, limit)
		return collect(ctx, l, &s, pgx.RowToStructByPos[EventRow])
	}
	if f.EventID != "" {
		w.read = func(ctx context.Context, from, _ ID, limit int) ([]EventRow, error) {
			return read(ctx, func(s *row.Statement) {
				s.Add(eventsBySender, f.EventID)
				f.addSources(s)
				s.Add(`)) OFFSET 0) v`)
			}, append(eventsBetween(since, from), narrow...), limit)
		}
		return w.page(ctx, l.search())
	}
	if f.Label != (Label{}) {
		if err := l.walkLabel(ctx, &w, f.Label, since, narrow, read); err != nil {
			return page, err
		}
		return w.page(ctx, l.search())
	}
	all := row.Is(`inbox_event v`)
	var walked row.Predicates // what has an index of its own
	walked.AddIf(f.State == "unusable" || f.State == "beyond_retention", `v.admission IN ('unusable', 'beyond_retention')`)
	w.read = func(ctx context.Context, from, to ID, limit int) ([]EventRow, error) {
		return read(ctx, all, append(append(eventsBetween(later(since, to), from), walked...), narrow...), limit)
	}
	if len(narrow) == 0 {
		return w.page(ctx, l.search())
	}
	w.edge = func(ctx context.Context, from ID, rows int) (ID, time.Time, error) {
		var s row.Statement
		s.Add(`SELECT v.id FROM inbox_event v`).Where(append(eventsBetween(since, from), walked...)).Add(edgeOfEvents, rows)
		return l.edge(ctx, &s)
	}
	rare := rareStates(f.State)
	w.fewFirst = rare != nil
	w.few = func(ctx context.Context, from ID, limit int) ([]EventRow, bool, error) {
		range_ := append(eventsBetween(since, from), narrow...)
		if rare != nil {
			var s row.Statement
			if whole, err := l.isFew(ctx, rare.count(&s)); whole || err != nil {
				if err != nil {
					return nil, false, err
				}
				// The ids are looked up from the newest on, as many as the page needs.
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
